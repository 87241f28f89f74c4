"""Cursors are synced with the tenants' schedules, in the database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text
from support.cursors import cursor, cursors, run, set_cursor, set_schedule, utc, versions
from support.fleet import CREATING, DEPLOYER, Fleet, numbered, query, schedules, statements
from support.sessions import LOCK_WAITS, until_found

from tenantcron.core.names import TenantId
from tenantcron.provider.protocol import TENANTS_A_BATCH
from tenantcron.provider.refresh import Refreshed, refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.plan import Rules
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.schedule_definitions import definition_id
from tenantcron.store.rows.tenants import Scope, Synced, in_scope, set_synced
from tenantcron.tenants.registry import Registry

PROVIDER = TenantScheduleProvider()
NIGHTLY = {"nightly": "cron: '0 2 * * *'"}


async def applied(fleet: Fleet, words: dict[str, str], tenant: str = "acme") -> None:
    fleet.write(tenant, words)
    await fleet.apply(Rules(create_tenants=True, max_deletes=100))


@pytest.fixture
async def followed(fleet: Fleet) -> Fleet:
    """A tenant with one schedule, whose cursor is in sync."""
    await applied(fleet, NIGHTLY)
    await refresh(fleet.database, PROVIDER)
    return fleet


def synced(url: str, tenant: str = "acme") -> tuple[bool, str | None]:
    """Whether the cursors are synced with the newest revision, and the tenant's fault."""
    (row,) = run(url, "SELECT * FROM tenantcron.tenant WHERE id = %s", tenant)
    return row["synced_revision"] == row["schedule_revision"], row["sync_fault"]


def clock(url: str) -> datetime:
    moment: datetime = run(url, "SELECT clock_timestamp() AS now")[0]["now"]
    return moment


async def test_a_new_schedule_counts_from_its_apply_however_late_the_refresh_is(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, {"hourly": "cron: '0 * * * *'"})
    (row,) = schedules(database_url, "acme")
    late = row["effective_from"] + timedelta(days=3)

    await refresh(fleet.database, PROVIDER, at=late)

    found = cursor(database_url, "hourly")
    assert found["effective_from"] == row["effective_from"]
    assert row["effective_from"] < found["next_run_at"]
    assert found["next_run_at"] <= row["effective_from"] + timedelta(hours=1)
    assert synced(database_url) == (True, None)


async def test_an_unchanged_tenant_is_not_read(followed: Fleet) -> None:
    assert await refresh(followed.database, PROVIDER) == Refreshed()


async def test_an_edit_of_the_definition_keeps_the_cursor_and_adds_the_definition(
    followed: Fleet, database_url: str
) -> None:
    set_cursor(database_url, last_run_at=utc(2026, 1, 1, 2), consecutive_failures=2)
    before = cursor(database_url)

    await applied(followed, {"nightly": "cron: '0 2 * * *', timeout: 7m"})
    assert await refresh(followed.database, PROVIDER) == Refreshed(tenants=1, updated=1)

    after = cursor(database_url)
    assert after == before | {"definition_id": after["definition_id"]}
    (row,) = schedules(database_url, "acme")
    assert after["definition_id"] == definition_id(row["definition"])
    stored = run(database_url, "SELECT * FROM tenantcron.schedule_definition")
    assert {row["id"]: row["unused_since"] for row in stored} == {
        before["definition_id"]: None,
        after["definition_id"]: None,
    }


async def test_an_edit_leaves_the_pause_alone(followed: Fleet, database_url: str) -> None:
    pause: dict[str, Any] = {
        "paused_at": utc(2026, 1, 1),
        "paused_by": "maria",
        "paused_reason": "down",
    }
    set_cursor(database_url, **pause)

    await applied(followed, {"nightly": "cron: '0 4 * * *'"})
    await refresh(followed.database, PROVIDER)

    assert cursor(database_url).items() >= pause.items()
    assert cursor(database_url)["next_run_at"].hour == 4


async def test_schedules_with_equal_definitions_share_a_row(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, numbered(5))
    await refresh(fleet.database, PROVIDER)

    assert len({row["definition_id"] for row in cursors(database_url).values()}) == 1
    assert len(run(database_url, "SELECT * FROM tenantcron.schedule_definition")) == 1


async def test_a_definition_that_was_out_of_use_is_in_use_again(
    followed: Fleet, database_url: str
) -> None:
    await applied(followed, {})
    await refresh(followed.database, PROVIDER)
    run(database_url, "UPDATE tenantcron.schedule_definition SET unused_since = now()")

    await applied(followed, NIGHTLY)
    await refresh(followed.database, PROVIDER)

    (stored,) = run(database_url, "SELECT * FROM tenantcron.schedule_definition")
    assert stored["unused_since"] is None


async def test_a_schedule_deleted_and_created_between_two_refreshes_is_new(
    followed: Fleet, database_url: str
) -> None:
    set_cursor(
        database_url,
        last_run_at=utc(2026, 1, 1, 2),
        paused_at=utc(2026, 1, 1),
        paused_by="maria",
        paused_reason="down",
    )
    before = cursor(database_url)
    await applied(followed, {})
    await applied(followed, NIGHTLY)

    assert await refresh(followed.database, PROVIDER) == Refreshed(tenants=1, created=1, removed=1)

    after = cursor(database_url)
    assert after["schedule_id"] != before["schedule_id"]
    assert (after["last_run_at"], after["paused_at"]) == (None, None)
    assert after["next_run_at"] > clock(database_url)


async def test_disabled_and_enabled_again_counts_from_then(
    followed: Fleet, database_url: str
) -> None:
    await applied(followed, {"nightly": "cron: '0 2 * * *', enabled: false"})
    await refresh(followed.database, PROVIDER)
    assert cursor(database_url)["next_run_at"] is None

    await applied(followed, NIGHTLY)
    await refresh(followed.database, PROVIDER)

    assert cursor(database_url)["next_run_at"] > clock(database_url)


async def test_a_manual_edit_counts_from_the_refresh(followed: Fleet, database_url: str) -> None:
    set_schedule(database_url, cron_expr="0 4 * * *")

    await refresh(followed.database, PROVIDER, at=utc(2031, 5, 5, 5))

    assert cursor(database_url)["next_run_at"] == utc(2031, 5, 6, 4)


@pytest.mark.parametrize(
    ("column", "value"),
    [("cron_expr", "not cron"), ("timezone", "Mars/Base")],
)
async def test_an_invalid_row_is_quarantined_and_the_others_are_served(
    fleet: Fleet, database_url: str, column: str, value: str
) -> None:
    await applied(fleet, numbered(3))
    (good,) = [row for row in schedules(database_url, "acme") if row["schedule_name"] == "s001"]
    set_schedule(database_url, "s001", **{column: value})

    done = await refresh(fleet.database, PROVIDER)

    assert done == Refreshed(tenants=1, created=3), "the tenant as a whole is fine"
    found = cursors(database_url)
    assert [row["fault"] is None for row in found.values()] == [True, False, True]
    assert [row["next_run_at"] is None for row in found.values()] == [False, True, False]

    mended = good[column] if column != "definition" else "{}"
    set_schedule(database_url, "s001", **{column: mended})
    await refresh(fleet.database, PROVIDER)
    assert cursor(database_url, "s001")["fault"] is None
    assert cursor(database_url, "s001")["next_run_at"] is not None


async def test_names_that_were_swapped_manually_are_synced(fleet: Fleet, database_url: str) -> None:
    await applied(fleet, {"a": "cron: '0 2 * * *'", "b": "cron: '0 3 * * *'"})
    await refresh(fleet.database, PROVIDER)
    set_cursor(database_url, "a", last_run_at=utc(2026, 1, 1, 2), consecutive_failures=3)
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        set_schedule(database_url, old, schedule_name=new)

    assert (await refresh(fleet.database, PROVIDER)).updated == 2

    found = cursors(database_url)
    assert {name: row["cron_expr"] for name, row in found.items()} == {
        "a": "0 3 * * *",
        "b": "0 2 * * *",
    }
    assert (found["b"]["last_run_at"], found["b"]["consecutive_failures"]) == (
        utc(2026, 1, 1, 2),
        3,
    )


async def test_one_broken_schema_is_held_and_the_others_are_served(
    fleet: Fleet, database_url: str
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        fleet.write(name, NIGHTLY)
    await fleet.apply(CREATING)
    await refresh(fleet.database, PROVIDER)
    before = cursors(database_url, "t05")["nightly"]
    for name in names:
        set_schedule(database_url, tenant=name, cron_expr="0 4 * * *")
    query(database_url, "ALTER TABLE tenant_t05.tenant_schedule RENAME TO away")

    done = await refresh(fleet.database, PROVIDER)

    assert list(done.broken) == ["t05"]
    assert "does not exist" in done.broken[TenantId("t05")]
    assert done.updated == 12, "eleven are edited, one is held"
    held = cursors(database_url, "t05")["nightly"]
    assert held["fault"] == "the tenant's schedules cannot be read"
    assert held == before | {"fault": held["fault"]}
    assert cursors(database_url, "t06")["nightly"]["cron_expr"] == "0 4 * * *"
    is_synced, fault = synced(database_url, "t05")
    assert is_synced
    assert fault == done.broken[TenantId("t05")]


async def test_a_broken_tenant_is_retried_only_on_request_and_continues_where_it_was(
    followed: Fleet, database_url: str
) -> None:
    overdue = utc(2026, 1, 1, 2)
    set_cursor(database_url, next_run_at=overdue)
    query(database_url, "ALTER TABLE tenant_acme.tenant_schedule RENAME TO away")
    run(database_url, "UPDATE tenantcron.tenant SET schedule_revision = schedule_revision + 1")
    await refresh(followed.database, PROVIDER)

    assert await refresh(followed.database, PROVIDER) == Refreshed(), "no hot loop"
    before = versions(database_url)
    again = await refresh(followed.database, PROVIDER, retry_broken=True)
    assert (again.tenants, again.updated, len(again.broken)) == (1, 0, 1)
    assert versions(database_url) == before, "what is known is not written again"

    query(database_url, "ALTER TABLE tenant_acme.away RENAME TO tenant_schedule")
    mended = await refresh(followed.database, PROVIDER, retry_broken=True)

    assert mended == Refreshed(tenants=1, updated=1)
    assert (cursor(database_url)["fault"], cursor(database_url)["next_run_at"]) == (None, overdue)
    assert synced(database_url) == (True, None)


async def test_an_unreadable_value_breaks_one_tenant_only(
    followed: Fleet, database_url: str
) -> None:
    await applied(followed, NIGHTLY, "beta")
    set_schedule(database_url, effective_from="infinity")

    done = await refresh(followed.database, PROVIDER)

    assert list(done.broken) == ["acme"]
    assert list(cursors(database_url, "beta")) == ["nightly"]


@pytest.mark.parametrize(
    ("alteration", "value"),
    [
        ("timezone TYPE text", "timezone = repeat('x', 65)"),
        ("saga_name TYPE text", "saga_name = repeat('x', 129)"),
        ("timezone DROP NOT NULL", "timezone = NULL"),
        ("enabled DROP NOT NULL", "enabled = NULL"),
    ],
)
async def test_a_table_that_was_altered_breaks_one_tenant_only(
    followed: Fleet, database_url: str, alteration: str, value: str
) -> None:
    await applied(followed, NIGHTLY, "beta")
    query(database_url, f"ALTER TABLE tenant_acme.tenant_schedule ALTER {alteration}")
    query(database_url, f"UPDATE tenant_acme.tenant_schedule SET {value}")  # noqa: S608 -- a test's own words

    done = await refresh(followed.database, PROVIDER)

    assert list(done.broken) == ["acme"]
    assert "was altered: schedule 'nightly'" in done.broken[TenantId("acme")]
    assert list(cursors(database_url, "beta")) == ["nightly"]


async def test_a_time_that_lost_its_zone_breaks_its_tenant(
    followed: Fleet, database_url: str
) -> None:
    column = "effective_from TYPE timestamp"
    query(database_url, f"ALTER TABLE tenant_acme.tenant_schedule ALTER {column}")
    run(database_url, "UPDATE tenantcron.tenant SET schedule_revision = schedule_revision + 1")

    assert list((await refresh(followed.database, PROVIDER)).broken) == ["acme"]


async def test_a_schema_that_is_being_dropped_is_skipped_and_the_others_are_served(
    followed: Fleet, database_url: str
) -> None:
    await applied(followed, NIGHTLY, "beta")
    set_schedule(database_url, cron_expr="0 4 * * *")
    with psycopg.connect(database_url) as somebody:
        somebody.execute("DROP SCHEMA tenant_acme CASCADE")

        async with asyncio.timeout(20):
            done = await refresh(followed.database, PROVIDER)

        assert list(done.broken) == ["acme"]
        assert list(cursors(database_url, "beta")) == ["nightly"]
        somebody.rollback()

    mended = await refresh(followed.database, PROVIDER, retry_broken=True)
    assert mended.broken == {}
    assert cursor(database_url)["cron_expr"] == "0 4 * * *"


async def test_a_schema_copied_with_its_ids_is_reported_and_changes_nothing(
    followed: Fleet, database_url: str
) -> None:
    await applied(followed, {}, "copy")
    query(
        database_url,
        "INSERT INTO tenant_copy.tenant_schedule SELECT * FROM tenant_acme.tenant_schedule",
    )
    before = cursor(database_url)

    done = await refresh(followed.database, PROVIDER)

    assert done.created == 0
    assert "another tenant one of this id" in done.broken[TenantId("copy")]
    assert cursor(database_url) == before
    assert (await refresh(followed.database, PROVIDER, everything=True)).removed == 0


async def test_a_deprovisioned_tenant_loses_its_cursors_and_fires_no_past_occurrence_on_return(
    followed: Fleet, database_url: str
) -> None:
    registry = Registry(followed.database, DEPLOYER)
    long_ago = utc(2026, 1, 1)
    set_schedule(database_url, effective_from=long_ago)
    await refresh(followed.database, PROVIDER)

    await registry.deprovision(TenantId("acme"), "left", drop_schema=False)
    assert await refresh(followed.database, PROVIDER) == Refreshed(tenants=1, removed=1)
    before = clock(database_url)
    await registry.resume(TenantId("acme"), "back")
    assert await refresh(followed.database, PROVIDER) == Refreshed(tenants=1, created=1)

    assert cursor(database_url)["next_run_at"] > before


async def test_a_dropped_schema_is_not_a_fault(followed: Fleet, database_url: str) -> None:
    registry = Registry(followed.database, DEPLOYER)
    await registry.deprovision(TenantId("acme"), "left", drop_schema=True)

    assert await refresh(followed.database, PROVIDER) == Refreshed(tenants=1, removed=1)
    assert synced(database_url) == (True, None)


async def test_a_tenant_that_is_being_applied_is_left_for_later(
    followed: Fleet, database: Database, database_url: str
) -> None:
    await applied(followed, NIGHTLY, "beta")
    set_schedule(database_url, cron_expr="0 4 * * *")
    async with database.transaction() as connection:
        await connection.execute(
            text("SELECT 1 FROM tenantcron.tenant WHERE id = 'acme' FOR UPDATE")
        )
        assert await refresh(database, PROVIDER) == Refreshed(tenants=1, created=1)

    assert await refresh(database, PROVIDER) == Refreshed(tenants=1, updated=1)


@pytest.mark.usefixtures("followed")
async def test_a_change_during_the_read_is_seen_by_the_next_refresh(
    database: Database, database_url: str
) -> None:
    set_schedule(database_url, cron_expr="0 4 * * *")
    async with database.transaction() as connection:
        batch = await PROVIDER.tenants(connection, Scope.MOVED, None)
        manual = asyncio.create_task(
            asyncio.to_thread(set_schedule, database_url, cron_expr="0 5 * * *")
        )
        assert [tenant.schedules[0].cron_expr for tenant in batch] == ["0 4 * * *"]
    await manual

    await refresh(database, PROVIDER)
    assert cursor(database_url)["cron_expr"] == "0 5 * * *"


@pytest.mark.usefixtures("followed")
async def test_a_cursor_that_is_being_fired_is_waited_for(
    database: Database, database_url: str
) -> None:
    fired = utc(2031, 5, 5, 4)
    set_schedule(database_url, cron_expr="0 4 * * *")
    async with database.transaction() as connection:
        await connection.execute(
            text("UPDATE tenantcron.schedule_cursor SET last_run_at = :fired"), {"fired": fired}
        )
        refreshing = asyncio.create_task(refresh(database, PROVIDER, at=utc(2031, 5, 5, 3)))
        await until_found(database_url, LOCK_WAITS)
    await refreshing

    assert cursor(database_url)["next_run_at"] == utc(2031, 5, 6, 4), "not what was just fired"


async def test_a_manually_deleted_cursor_is_restored_by_a_full_refresh(
    followed: Fleet, database_url: str
) -> None:
    run(database_url, "DELETE FROM tenantcron.schedule_cursor")

    assert await refresh(followed.database, PROVIDER) == Refreshed()
    assert (await refresh(followed.database, PROVIDER, everything=True)).created == 1


@pytest.mark.usefixtures("followed")
async def test_a_refresh_writes_no_audit_record(database_url: str) -> None:
    records = run(database_url, "SELECT operation FROM tenantcron.audit_record")

    assert [record["operation"] for record in records] == ["create"]


@contextmanager
def connected(database: Database, made: list[object]) -> Iterator[None]:
    """Collect the opened connections."""

    def collect(connection: object, _: object) -> None:
        made.append(connection)

    event.listen(database.engine.sync_engine, "connect", collect)
    yield
    event.remove(database.engine.sync_engine, "connect", collect)


async def test_a_large_fleet_is_synced_in_batches_on_replaced_connections(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.provider.refresh.BATCHES_A_CONNECTION", 1)
    count = 2 * TENANTS_A_BATCH + 1
    run(
        database_url,
        "INSERT INTO tenantcron.tenant (id, schema_name, status, schedule_revision, created_at,"
        " updated_at) SELECT 't' || n, 'tenant_t' || n, 'deprovisioned', 1, now(), now()"
        " FROM generate_series(1, %s) AS n",
        count,
    )
    made: list[object] = []
    with statements(database) as sent, connected(database, made):
        done = await refresh(database, PROVIDER)

    assert done == Refreshed(tenants=count)
    # The two last looks replace nothing, so the second may have the connection of the first.
    assert len(made) in (3, 4), "every batch but the first on another connection"
    begun = sum(statement.startswith("BEGIN") for statement in sent)
    assert begun == 5, "three batches, and a last look of each of the two that are under way"
    assert len(sent) < 5 * 8


async def test_finding_changed_tenants_does_not_read_all_tenants(
    database: Database, database_url: str
) -> None:
    run(
        database_url,
        "INSERT INTO tenantcron.tenant (id, schema_name, schedule_revision, synced_revision,"
        " created_at, updated_at) SELECT 't' || n, 'tenant_t' || n, 5, 5, now(), now()"
        " FROM generate_series(1, 5000) AS n",
    )
    run(database_url, "UPDATE tenantcron.tenant SET schedule_revision = 6 WHERE id = 't77'")
    run(database_url, "ANALYZE tenantcron.tenant")

    statement = in_scope(Scope.MOVED).params(after="", batch=TENANTS_A_BATCH)
    compiled = statement.compile(dialect=database.engine.dialect)
    async with database.transaction() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN {compiled}", compiled.params)
        lines = "\n".join(row[0] for row in plan)

    assert "tenant_moved_idx" in lines, lines
    assert "Seq Scan" not in lines


async def test_marking_a_batch_as_synced_does_not_read_all_tenants(
    database: Database, database_url: str
) -> None:
    run(
        database_url,
        "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
        " SELECT 't' || n, 'tenant_t' || n, now(), now() FROM generate_series(1, 20000) AS n",
    )
    run(database_url, "ANALYZE tenantcron.tenant")
    batch = [Synced(TenantId(f"t{number}"), 1, None) for number in range(TENANTS_A_BATCH)]

    sent: list[tuple[str, dict[str, object]]] = []

    def collect(*arguments: Any) -> None:
        sent.append(arguments[2:4])

    async with database.transaction() as connection:
        event.listen(database.engine.sync_engine, "before_cursor_execute", collect)
        await set_synced(connection, batch)
        statement, given = sent[0]
        plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", given)
        lines = "\n".join(row[0] for row in plan)

    assert "tenant_pkey" in lines, lines
    assert "Seq Scan on tenant" not in lines
