"""Many tenants on a server with room for few locks: no transaction reads them all.

A transaction holds a lock on each table and index that it has read, and the server has room for
`max_locks_per_transaction` times its connections. This server has room for about 900; a fleet of
20,000 tenants reaches the same limit on a server with default settings.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from support.database import Server, migrate_url, own_server
from support.tenants import add_current

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.migrations.outcome import TenantMigrationState
from tenantcron.migrations.runner import migrate
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.state import read_states
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.replica.audit_retention import RecordRetention
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.scripts import for_schema, run_script

_FEW_LOCKS = {"max_locks_per_transaction": "10", "max_connections": "20", "max_wal_senders": "0"}
_TENANTS = 500
# Creating a tenant locks all its objects.
_CREATED_AT_A_TIME = 10
_SCHEDULE = """
INSERT INTO {schema}.tenant_schedule
    (id, schedule_name, saga_name, cron_expr, timezone, enabled, manifest_version_id, definition,
    created_at, updated_at)
VALUES (gen_random_uuid(), 'nightly', 'rollup', '5 2 * * *', 'UTC', true, gen_random_uuid(), '{{}}',
    now(), now());
"""
_RECORD = """
INSERT INTO {schema}.audit_record (entity_type, entity_id, operation, changed_by, actor_type,
    actor_source, authenticated, changed_at)
VALUES ('note', 'n', 'create', 'ada', 'human', 'cli', false, now() - interval '500 days');
"""


@pytest.fixture(scope="module")
def small_server(run_folder: Path) -> Iterator[Server]:
    """A server with room for few locks, and a fleet in it."""
    with own_server(run_folder, _FEW_LOCKS) as server:
        server.execute("CREATE DATABASE {}", "fleet")
        asyncio.run(_create_fleet(server.url("fleet")))
        yield server


async def _create_fleet(url: str) -> None:
    await migrate_url(url)
    async with open_database(Settings(database_url=url, folder=Path())) as database:
        for start in range(0, _TENANTS, _CREATED_AT_A_TIME):
            async with database.transaction() as connection:
                for number in range(start, start + _CREATED_AT_A_TIME):
                    schema = await add_current(connection, f"t{number:03}")
                    await connection.run_sync(run_script, for_schema(_SCHEDULE, schema))


@pytest.fixture
async def fleet(small_server: Server) -> AsyncIterator[Database]:
    """The fleet's database."""
    settings = Settings(database_url=small_server.url("fleet"), folder=Path())
    async with open_database(settings) as database:
        yield database


async def test_migrate_reads_a_large_fleet(fleet: Database) -> None:
    outcome = await migrate(fleet)

    assert [tenant.state for tenant in outcome.tenants] == [TenantMigrationState.CURRENT] * _TENANTS


async def test_old_records_of_a_large_fleet_are_deleted(fleet: Database) -> None:
    async with fleet.transaction() as connection:
        for number in range(0, _TENANTS, 60):
            await connection.run_sync(run_script, for_schema(_RECORD, f"tenant_t{number:03}"))
    await RecordRetention().step(Replica(fleet, Settings(folder=Path())))

    async with fleet.transaction() as connection:
        for number in range(0, _TENANTS, 60):
            left = (
                f"SELECT count(*) FROM tenant_t{number:03}.audit_record WHERE entity_type = 'note'"  # noqa: S608 -- a number
            )
            assert await connection.scalar(text(left)) == 0


async def test_the_state_of_a_large_fleet_is_read(fleet: Database) -> None:
    ids = [TenantId(f"t{number:03}") for number in range(_TENANTS)]

    states = await read_states(fleet, ids)

    assert [len(states[tenant].live) for tenant in ids] == [1] * _TENANTS


async def test_refresh_and_audit_read_a_large_fleet(fleet: Database) -> None:
    done = await refresh(fleet, TenantScheduleProvider(), everything=True)
    audited = await audit(fleet, timedelta(days=1))

    assert (done.tenants, done.created, done.broken) == (_TENANTS, _TENANTS, {})
    assert (audited.tenants, audited.schedules, audited.findings) == (_TENANTS, _TENANTS, [])
