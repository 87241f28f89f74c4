"""Migrations: partly done, broken, and several at a time."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import event, text
from support.catalog import describe
from support.cursors import run as execute
from support.tenants import add_behind, add_current, add_row

from tenantcron.core.settings import Settings
from tenantcron.migrations import runner
from tenantcron.migrations.outcome import ControlOutcome, TenantMigrationState, TenantOutcome
from tenantcron.migrations.runner import migrate, migrate_control, migrate_tenants
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.locks import MigrationLock, lock_migration
from tenantcron.store.schema import tenant_versions
from tenantcron.store.schema.tenant_tables import create_tenant_schema
from tenantcron.store.schema.versions import CONTROL_VERSION


async def behind(database: Database, *tenants: str) -> None:
    async with database.transaction() as connection:
        for tenant in tenants:
            await add_behind(connection, tenant)


async def run(database: Database, statement: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(text(statement))


async def test_an_empty_database_gets_its_control_schema(empty_database_url: str) -> None:
    settings = Settings(database_url=empty_database_url, folder=Path())
    async with open_database(settings) as database:
        first, second = await migrate(database), await migrate(database)

    assert first.control == ControlOutcome(None, CONTROL_VERSION)
    assert second.control == ControlOutcome(CONTROL_VERSION, CONTROL_VERSION)
    assert first.tenants == second.tenants == ()


async def test_only_outdated_schemas_are_migrated(database: Database) -> None:
    await behind(database, "old")
    async with database.transaction() as connection:
        await add_current(connection, "new")
        model = await describe(connection, "tenant_new")

    outcome = await migrate(database)

    assert outcome.tenants == (
        TenantOutcome("new", TenantMigrationState.CURRENT),
        TenantOutcome("old", TenantMigrationState.MIGRATED),
    )
    async with database.transaction() as connection:
        assert await describe(connection, "tenant_old") == model


async def test_a_failing_tenant_does_not_stop_the_others_and_a_second_run_finishes(
    database: Database,
) -> None:
    await behind(database, "a", "b", "c")
    await run(database, "CREATE TABLE tenant_b.tenant_schedule (note text)")

    first = await migrate(database)
    await run(database, "DROP TABLE tenant_b.tenant_schedule")
    second = await migrate(database)

    assert [tenant.state for tenant in first.tenants] == [
        TenantMigrationState.MIGRATED,
        TenantMigrationState.FAILED,
        TenantMigrationState.MIGRATED,
    ]
    [failed] = first.failed
    assert failed.error == 'relation "tenant_schedule" already exists'
    assert second.tenants[1] == TenantOutcome("b", TenantMigrationState.MIGRATED)


async def test_a_failed_migration_leaves_nothing_half_done(database: Database) -> None:
    await behind(database, "b")
    await run(database, "CREATE TABLE tenant_b.tenant_schedule (note text)")

    await migrate(database)

    async with database.transaction() as connection:
        found = (await describe(connection, "tenant_b"))["tables"]
    assert found == ["schema_version r ", "tenant_schedule r "]


async def test_broken_tenants_are_reported_and_deprovisioned_ones_skipped(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await add_row(connection, "lost")
        await add_row(connection, "gone", "deprovisioned")
        foreign = await add_row(connection, "foreign")
        await connection.execute(text(f"CREATE SCHEMA {foreign}"))
        await create_tenant_schema(connection, await add_row(connection, "kept", "deprovisioned"))

    outcomes = {outcome.tenant: outcome for outcome in await migrate_tenants(database)}

    assert outcomes.keys() == {"lost", "foreign", "kept"}
    assert "tenant_lost is missing" in (outcomes["lost"].error or "")
    assert "tenant_foreign has no schema_version" in (outcomes["foreign"].error or "")
    assert outcomes["kept"].state is TenantMigrationState.CURRENT


async def test_a_schema_that_is_dropped_meanwhile_is_not_a_failure(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_versions, "_BATCH", 1)
    async with database.transaction() as connection:
        for tenant in ("a", "b"):
            await add_current(connection, tenant)

    def deprovision_b(*arguments: object) -> None:
        if str(arguments[2]).startswith("SELECT 'tenant_a'"):
            execute(
                database_url, "UPDATE tenantcron.tenant SET status = 'deprovisioned' WHERE id = 'b'"
            )
            execute(database_url, "DROP SCHEMA tenant_b CASCADE")

    event.listen(database.engine.sync_engine, "before_cursor_execute", deprovision_b)

    outcomes = await migrate_tenants(database)

    assert outcomes == (TenantOutcome("a", TenantMigrationState.CURRENT),)


async def test_schemas_newer_than_the_program_are_left_as_they_are(database: Database) -> None:
    async with database.transaction() as connection:
        await add_current(connection, "a")
    for schema in ("tenantcron", "tenant_a"):
        await run(database, f"UPDATE {schema}.schema_version SET version_num = '9999_later'")  # noqa: S608 -- the names above

    outcome = await migrate(database)

    assert outcome.control == ControlOutcome("9999_later", "9999_later")
    assert outcome.tenants == (TenantOutcome("a", TenantMigrationState.CURRENT),)


async def test_outdated_tenants_are_found_without_a_query_per_tenant(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_versions, "_BATCH", 4)
    async with database.transaction() as connection:
        for number in range(6):
            await add_current(connection, f"t{number}")
    sent: list[object] = []
    event.listen(
        database.engine.sync_engine, "before_cursor_execute", lambda *args: sent.append(args)
    )

    outcomes = await migrate_tenants(database)

    assert len(outcomes) == 6
    # BEGIN and the tenants; then BEGIN, a savepoint and the versions for each of two batches.
    assert len(sent) == 2 + 2 * 4


async def test_progress_is_reported_for_every_tenant(database: Database) -> None:
    await behind(database, "a", "b")
    seen: list[tuple[str, int]] = []

    await migrate_tenants(
        database, on_progress=lambda outcome, total: seen.append((outcome.tenant, total))
    )

    assert sorted(seen) == [("a", 2), ("b", 2)]


async def test_two_runs_at_once_migrate_each_tenant_once(database: Database) -> None:
    names = [f"t{number}" for number in range(12)]
    await behind(database, *names)

    outcomes = await asyncio.gather(migrate_tenants(database), migrate_tenants(database))

    states = zip(*([tenant.state for tenant in outcome] for outcome in outcomes), strict=True)
    assert all(sorted(state.value for state in pair) == ["current", "migrated"] for pair in states)


async def test_two_runs_at_once_on_an_empty_database_both_succeed(empty_database_url: str) -> None:
    settings = Settings(database_url=empty_database_url, folder=Path())
    async with open_database(settings) as database:
        outcomes = await asyncio.gather(migrate_control(database), migrate_control(database))

    assert {outcome.before for outcome in outcomes} == {None, CONTROL_VERSION}
    assert {outcome.after for outcome in outcomes} == {CONTROL_VERSION}


async def test_a_run_waits_for_another_that_migrates_the_control_schema(
    empty_database_url: str,
) -> None:
    settings = Settings(database_url=empty_database_url, folder=Path())
    async with open_database(settings) as database:
        async with database.transaction() as connection:
            await lock_migration(connection, MigrationLock.CONTROL)
            waiting = asyncio.create_task(migrate_control(database))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.2)
        assert (await waiting).after == CONTROL_VERSION


async def test_tables_in_use_make_a_tenant_fail_instead_of_a_queue_behind_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE", "100ms")
    await behind(database, "busy")
    async with database.transaction() as connection:
        # The stamp is written last; another session reads with a conflicting lock.
        await connection.execute(text("LOCK TABLE tenant_busy.schema_version IN SHARE MODE"))
        [busy] = await migrate_tenants(database)

    [again] = await migrate_tenants(database)

    assert busy.state is TenantMigrationState.FAILED
    assert "lock timeout" in (busy.error or "")
    assert again.state is TenantMigrationState.MIGRATED
