"""Audit records of all tenants in one list."""

from datetime import datetime

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from support.explaining import explained
from support.fleet import NIGHTLY, query
from support.serving import Api, apply, pages

from tenantcron.migrations.runner import migrate
from tenantcron.store.rows import cluster_records
from tenantcron.store.rows.audit_records import AuditFilter

PATH, NAME = "/v1/audit-records", "audit_records"
_MANUAL = "UPDATE tenant_beta.tenant_schedule SET cron_expr = '0 5 * * *'"


async def _furnish(api: Api, *ids: str) -> None:
    await api.tenants(*ids)
    for tenant in ids:
        await apply(api, tenant, {"early": NIGHTLY, "late": NIGHTLY})


async def test_records_of_all_tenants_are_listed_newest_first_and_each_exactly_once(
    api: Api, database_url: str
) -> None:
    await _furnish(api, "acme", "beta", "gamma")
    query(database_url, _MANUAL)
    async with await api.client("operator") as operator:
        await operator.post(
            "/v1/tenants/acme/schedules/late:pause", json={"reason": "partner is down"}
        )
        await operator.patch("/v1/limits", json={"max_concurrent": 7})
        small = await pages(operator, PATH, NAME, limit=2)
        all_at_once = await pages(operator, PATH, NAME, limit=500)
        of_tenants = [
            row | {"tenant": tenant}
            for tenant in ("acme", "beta", "gamma")
            for row in await pages(operator, f"/v1/tenants/{tenant}/audit-records", NAME)
        ]

    assert small == all_at_once
    times = [datetime.fromisoformat(row["changed_at"]) for row in small]
    assert times == sorted(times, reverse=True)
    assert [row for row in of_tenants if row not in small] == []
    others = [row for row in small if row not in of_tenants]
    assert {row["entity_type"] for row in others} == {"limits", "api_token"}
    assert {row["tenant"] for row in others} == {None}
    manual = [row for row in small if row["changed_by"]["source"] == "sql"]
    assert [(row["tenant"], row["entity_id"]) for row in manual] == [
        *(("beta", "late"), ("beta", "early"))
    ]


async def test_records_are_filtered(api: Api) -> None:
    await _furnish(api, "acme", "beta")
    async with await api.client("viewer") as viewer:
        schedules = await pages(viewer, PATH, NAME, entity_type="schedule")
        tenants = await pages(viewer, PATH, NAME, entity_type="tenant")
        of_beta = await pages(viewer, PATH, NAME, tenant="beta")
        by_ada = await pages(viewer, PATH, NAME, actor="ada")
        since = await pages(viewer, PATH, NAME, since=schedules[0]["changed_at"])
        until = await pages(viewer, PATH, NAME, until=schedules[0]["changed_at"])
        nothing = await pages(viewer, PATH, NAME, entity_type="none")

    assert [row["entity_id"] for row in schedules] == ["late", "early"] * 2
    assert {row["entity_id"] for row in tenants} == {"acme", "beta"}
    assert {row["tenant"] for row in of_beta} == {"beta"}
    assert len(of_beta) == 3
    assert {row["changed_by"]["id"] for row in by_ada} == {"ada"}
    assert since[-2:] == schedules[:2]
    assert schedules[2:] == [row for row in until if row["entity_type"] == "schedule"]
    assert nothing == []


async def test_a_bound_caller_sees_the_records_of_its_tenant(api: Api) -> None:
    await _furnish(api, "acme", "beta")
    async with await api.client("admin", "acme") as bound:
        own = await pages(bound, PATH, NAME)
        hidden = await bound.get(PATH, params={"tenant": "beta"})

    assert {row["tenant"] for row in own} == {"acme"}
    assert {row["entity_type"] for row in own} == {"schedule", "tenant", "api_token"}
    assert hidden.status_code == 404


async def test_a_page_ends_before_it_reads_too_many_tenants(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"t{number}" for number in range(6)]
    await _furnish(api, *ids)
    async with await api.client("viewer") as viewer:
        complete = await pages(viewer, PATH, NAME, limit=500)
        monkeypatch.setattr(cluster_records, "MOST_TENANTS", 2)
        first = (await viewer.get(PATH, params={"limit": 500})).json()
        rows = await pages(viewer, PATH, NAME, limit=500)

    schedules = [row for row in first[NAME] if row["entity_type"] == "schedule"]
    assert {row["tenant"] for row in schedules} == {"t4", "t5"}
    assert first["next"] is not None
    assert rows == complete


async def test_the_records_of_a_dropped_schema_are_skipped(api: Api) -> None:
    await _furnish(api, "acme", "beta")
    async with await api.client("admin") as admin:
        gone = {"reason": "ended", "drop_schema": True, "confirm": "acme"}
        await admin.post("/v1/tenants/acme:deprovision", json=gone)
        rows = await pages(admin, PATH, NAME, entity_type="schedule")

    assert {row["tenant"] for row in rows} == {"beta"}


_BEFORE = "DELETE FROM tenantcron.schedule_change"
_KEPT = "SELECT tenant_id, changed_by FROM tenantcron.schedule_change ORDER BY changed_at"


async def test_older_records_of_a_tenant_are_indexed_by_its_migration(
    api: Api, database_url: str
) -> None:
    await _furnish(api, "acme", "beta")
    before = query(database_url, _KEPT)
    with psycopg.connect(database_url) as owner:
        owner.execute("ALTER TABLE tenantcron.schedule_change DISABLE TRIGGER ALL")
        owner.execute(_BEFORE)
        for tenant in ("acme", "beta"):
            version = "UPDATE {}.schema_version SET version_num = '0002_audit_retention'"
            owner.execute(SQL(version).format(Identifier(f"tenant_{tenant}")))
    await migrate(api.database)

    assert query(database_url, _KEPT) == before
    assert [row["tenant_id"] for row in before] == ["acme", "beta"]


def test_the_times_of_changes_are_append_only_and_forgotten_with_the_records(
    database_url: str,
) -> None:
    add = "INSERT INTO tenantcron.schedule_change VALUES (now() - interval '{}', 'acme', 'ada')"
    for age in ("400 days", "10 days"):
        query(database_url, add.replace("{}", age))
    for change in ("UPDATE tenantcron.schedule_change SET changed_by = 'joe'", _BEFORE):
        with pytest.raises(psycopg.Error, match="append only"):
            query(database_url, change)
    query(database_url, "SELECT tenantcron.forget_audit_records('tenantcron', '365 days', 10)")

    assert len(query(database_url, _KEPT)) == 1


_CHANGES = (
    "INSERT INTO tenantcron.schedule_change (changed_at, tenant_id, changed_by)"
    " SELECT now() - make_interval(secs => n), 'acme', 'ada' FROM generate_series(1, 20000) AS n"
)
_RECORDS = (
    "INSERT INTO tenantcron.audit_record (entity_type, entity_id, operation, changed_by,"
    " actor_type, actor_source, authenticated, changed_at)"
    " SELECT 'limits', 'cluster', 'update', 'ada', 'human', 'cli', false,"
    " now() - make_interval(secs => n) FROM generate_series(1, 20000) AS n"
)


async def test_a_page_of_all_tenants_is_read_by_time(api: Api, database_url: str) -> None:
    await _furnish(api, "acme")
    query(database_url, _CHANGES)
    query(database_url, _RECORDS)
    query(database_url, "ANALYZE tenantcron.schedule_change, tenantcron.audit_record")
    changes = await explained(
        api.database,
        lambda session: cluster_records.select_changes(session, AuditFilter(), None, 51),
        as_owner=True,
    )
    records = await explained(
        api.database,
        lambda session: anext(
            cluster_records.page(
                session, AuditFilter(), cluster_records.RecordSelection(), before=None, limit=51
            )
        ),
        as_owner=True,
    )

    assert "schedule_change_pkey" in changes
    assert "audit_record_newest_idx" in records
