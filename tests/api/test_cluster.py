"""The cluster by the API: health, workers and the schedules of all tenants."""

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from support.explaining import explained
from support.fleet import query
from support.scraping import read
from support.serving import Api, api_on, apply, pages

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.service import schedule_pages
from tenantcron.service.health import check_health
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import cursor_pages
from tenantcron.store.rows.cursor_pages import CursorFilter, CursorPosition

NIGHTLY = 'cron: "0 2 * * *"'
_WORKERS = (
    "INSERT INTO tenantcron.worker (id, service, started_at, seen_at, running, abandoned, draining)"
    " SELECT 'host:' || n, 'billing', now(), now() - make_interval(hours => n), n, 0, false"
    " FROM generate_series(0, 2) AS n"
)


async def _furnish(api: Api) -> None:
    await api.tenants("acme", "globex")
    await apply(api, "acme", {"nightly": NIGHTLY, "off": f"{NIGHTLY}, enabled: false"})
    await apply(api, "globex", {"nightly": f"{NIGHTLY}, ends: 2098-01-01", "report": NIGHTLY})
    await refresh(api.database, TenantScheduleProvider())


async def test_schedules_of_all_tenants_are_listed_in_pages(api: Api) -> None:
    await _furnish(api)
    async with await api.client("viewer") as viewer:
        rows = await pages(viewer, "/v1/schedules", "schedules", limit=1)
        off = await pages(viewer, "/v1/schedules", "schedules", enabled="false")
        reports = await pages(viewer, "/v1/schedules", "schedules", saga="report")
        other = await pages(viewer, "/v1/schedules", "schedules", tenant="globex")
        invalid = await viewer.get("/v1/schedules?after=WzFd")

    names = [(row["tenant"], row["name"]) for row in rows]
    assert names == [
        *(("acme", "nightly"), ("acme", "off"), ("globex", "nightly"), ("globex", "report"))
    ]
    assert (rows[2]["cron"], rows[2]["ends"]) == ("0 2 * * *", "2098-01-01")
    assert len(rows[0]["next_executions"]) == 3
    assert [(row["name"], row["next_executions"]) for row in off] == [("off", [])]
    assert [row["name"] for row in reports] == ["report"]
    assert other == rows[2:]
    assert invalid.status_code == 422


async def test_schedules_that_no_scheduler_has_picked_up_are_listed_in_pages(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_pages, "MOST_BEHIND", 2)
    await _furnish(api)
    await api.tenants("beta", "delta", "gamma")
    for tenant in ("acme", "beta", "delta", "gamma"):
        await apply(api, tenant, {"early": NIGHTLY, "late": f"{NIGHTLY}, enabled: false"})
    async with await api.client("viewer") as viewer, await api.client("viewer", "beta") as bound:
        rows = await pages(viewer, "/v1/schedules", "schedules", limit=3)
        all_at_once = await pages(viewer, "/v1/schedules", "schedules", limit=500)
        off = await pages(viewer, "/v1/schedules", "schedules", enabled="false")
        own = await pages(bound, "/v1/schedules", "schedules", limit=500)

    names = [(row["tenant"], row["name"]) for row in rows]
    expected = [
        (tenant, name)
        for tenant in ("acme", "beta", "delta", "gamma", "globex")
        for name in (("nightly", "report") if tenant == "globex" else ("early", "late"))
    ]
    assert names == expected
    assert all_at_once == rows
    assert {row["name"] for row in off} == {"late"}
    assert [(row["tenant"], row["name"]) for row in own] == [("beta", "early"), ("beta", "late")]


async def test_a_tenant_whose_schema_cannot_be_read_is_listed_as_failed(
    api: Api, database_url: str
) -> None:
    await _furnish(api)
    query(database_url, "ALTER TABLE tenant_acme.tenant_schedule RENAME COLUMN saga_name TO lost")
    query(
        database_url,
        "UPDATE tenantcron.tenant SET sync_fault = 'cannot be read' WHERE id = 'acme'",
    )
    async with await api.client("viewer") as viewer:
        shown = (await viewer.get("/v1/schedules")).json()

    assert [failed["tenant"] for failed in shown["failed"]] == ["acme"]
    assert {row["tenant"] for row in shown["schedules"]} == {"globex"}


async def test_a_bound_caller_sees_schedules_of_its_tenant_and_nothing_of_the_cluster(
    api: Api,
) -> None:
    await _furnish(api)
    async with await api.client("admin", "acme") as bound, await api.client("viewer") as viewer:
        own = await pages(bound, "/v1/schedules", "schedules")
        theirs = await bound.get("/v1/schedules?tenant=globex")
        refused = [(await bound.get(path)).json() for path in ("/v1/health", "/v1/workers")]
        later = (await viewer.get("/v1/schedules?limit=3")).json()["next"]
        after = (await bound.get("/v1/schedules", params={"after": later})).json()

    assert {row["tenant"] for row in own} == {"acme"}
    assert theirs.status_code == 404
    assert [problem["code"] for problem in refused] == ["TC702", "TC702"]
    assert after["schedules"] == []


async def test_health_and_workers_are_shown_to_viewers_of_all_tenants(
    api: Api, database_url: str
) -> None:
    await _furnish(api)
    async with await api.client("viewer") as viewer:
        ill = (await viewer.get("/v1/health")).json()
        query(database_url, _WORKERS)
        running = (await viewer.get("/v1/health")).json()
        rows = await pages(viewer, "/v1/workers", "workers", limit=2)

    assert not ill["healthy"]
    assert "no-replica" in [finding["code"] for finding in ill["findings"]]
    assert [replica["id"] for replica in running["replicas"]] == ["host:0"]
    assert [(row["id"], row["alive"]) for row in rows] == [
        *(("host:0", True), ("host:1", False), ("host:2", False))
    ]


async def test_health_names_the_session_that_locks_a_table(api: Api, database_url: str) -> None:
    async with await api.client("viewer") as viewer:
        with psycopg.connect(database_url) as session:
            session.execute("LOCK TABLE tenantcron.limits IN ACCESS EXCLUSIVE MODE")
            blocked = (await viewer.get("/v1/health")).json()
            pid = session.info.backend_pid

    (finding,) = blocked["findings"]
    assert blocked.keys() == {"healthy", "findings"}
    assert not blocked["healthy"]
    assert finding["message"].startswith(f"tenantcron.limits is locked by process {pid}")


async def test_health_reports_a_signing_key_that_cannot_be_used(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "signing.pem"
    file.write_text("not a key", encoding="utf-8")
    async with api_on(database, tmp_path) as api:
        settings = replace(api.service.settings, signing_key_file=file)
        report = await check_health(database, settings, reading=database)
        async with await api.client("viewer") as viewer:
            without_keys = (await viewer.get("/v1/health")).json()

    assert "signing" in " ".join(finding.code for finding in report.findings)
    assert "signing" not in " ".join(finding["code"] for finding in without_keys["findings"])


async def test_a_page_of_schedules_is_read_by_the_index_of_names(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    await refresh(api.database, TenantScheduleProvider())
    query(database_url, _CURSORS)
    query(database_url, "ANALYZE tenantcron.schedule_cursor")
    for filters in (CursorFilter(), CursorFilter(containing="99")):
        plan = await explained(
            api.database,
            lambda connection, filters=filters: cursor_pages.page(
                connection, filters, after=CursorPosition("acme", "s5"), limit=51
            ),
        )
        assert "schedule_cursor_tenant_id_schedule_name_key" in plan
        assert "Seq Scan" not in plan


_CURSORS = (
    "INSERT INTO tenantcron.schedule_cursor SELECT (jsonb_populate_record(c, jsonb_build_object("
    "'schedule_id', gen_random_uuid(), 'schedule_name', 's' || n))).*"
    " FROM tenantcron.schedule_cursor AS c, generate_series(1, 5000) AS n"
)


async def test_the_durations_of_requests_are_metrics(api: Api) -> None:
    async with await api.client("viewer") as viewer:
        await viewer.get("/v1/tenants")
        await viewer.get("/v1/tenants/unknown")
        await viewer.get("/healthz")
        scraped = read((await viewer.get("/metrics")).text)

    counted = scraped.values("api_request_duration_seconds_count", "status")
    assert counted == {"2xx": 1, "3xx": 0, "4xx": 1, "5xx": 0}
