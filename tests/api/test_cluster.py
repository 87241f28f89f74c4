"""The cluster by the API: health, workers and the schedules of all tenants."""

from support.explaining import explained
from support.fleet import query
from support.serving import Api, apply, pages

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
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
