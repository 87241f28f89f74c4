"""The overview of thousands of tenants: its reads and its cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from support.explaining import explained
from support.fleet import statements
from support.scheduling import NOON, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.scheduler.inspect.cluster_status import NOT_FOLLOWED, SHOWN, read_cluster_status
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants_behind
from tenantcron.web.load_ahead import KEPT, LoadAhead

LEASE = timedelta(seconds=60)
TENANTS = 3_000
_FLEET = text(
    "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
    " SELECT 'f' || n, 'tenant_f' || n, :at, :at FROM generate_series(1, :number) AS n"
)


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    async with database.transaction() as connection:
        await connection.execute(_FLEET, {"at": NOON - timedelta(days=1), "number": TENANTS})
        await connection.execute(text("ANALYZE tenantcron.tenant"))
    return scheduling


@contextmanager
def rows_received(database: Database) -> Iterator[list[int]]:
    """Collect how many rows each statement returns."""
    received: list[int] = []

    def collect(_: object, cursor: Any, *__: object) -> None:
        received.append(cursor.rowcount)

    engine = database.engine.sync_engine
    event.listen(engine, "after_cursor_execute", collect)
    try:
        yield received
    finally:
        event.remove(engine, "after_cursor_execute", collect)


async def test_a_health_check_reads_few_rows_for_any_number_of_tenants(
    scheduling: Scheduling,
) -> None:
    with rows_received(scheduling.database) as received:
        async with scheduling.database.transaction() as connection:
            status = await read_cluster_status(connection, LEASE, NOON)

    assert (status.left_out.number, status.not_followed.number) == (0, 0)
    assert sum(received) < 50, received


async def test_the_first_tenants_that_are_behind_are_named_and_all_are_counted(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute("UPDATE tenantcron.tenant SET schedule_revision = 7")
    await scheduling.execute(
        "UPDATE tenantcron.tenant SET sync_fault = 'its schema is gone' WHERE id < 'f2'"
    )
    # One of them was changed just now, which is no delay yet.
    await scheduling.execute(
        "UPDATE tenantcron.tenant SET updated_at = :at WHERE id = 'f1'", at=NOON
    )

    async with scheduling.database.transaction() as connection:
        status = await read_cluster_status(connection, LEASE, NOON)

    assert status.has_schedules
    assert (status.not_followed.number, len(status.not_followed.rows)) == (TENANTS - 1, SHOWN)
    assert status.not_followed.rows[0].tenant_id == "f10"
    assert (status.left_out.number, len(status.left_out.rows)) == (1111, SHOWN)
    assert status.left_out.rows[0].fault == "its schema is gone"


async def test_tenants_that_are_behind_are_found_by_an_index(
    scheduling: Scheduling,
) -> None:
    plan = await explained(
        scheduling.database,
        lambda connection: tenants_behind.not_synced(connection, NOT_FOLLOWED, NOON, SHOWN),
    )

    assert "tenant_moved_idx" in plan
    assert "Seq Scan" not in plan


async def test_viewers_of_the_fleet_share_cached_timetables_for_30_seconds(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(5, "0 * * * *")
    ahead = LoadAhead()

    async def look(after: timedelta, tenant: str | None = None) -> tuple[int, int]:
        """Return how many statements a look takes, and how many schedules it shows."""
        bound = None if tenant is None else TenantId(tenant)
        async with scheduling.database.transaction() as connection:
            with statements(scheduling.database) as sent:
                found = await ahead.timetables(connection, NOON + after, bound)
        return len(sent), sum(shared.schedules for shared in found)

    assert await look(timedelta()) == (1, 5)
    await scheduling.schedule("another", "0 * * * *")
    assert await look(KEPT - timedelta(seconds=1)) == (0, 5)
    assert await look(timedelta(seconds=1), "acme") == (1, 6)
    assert await look(KEPT) == (1, 6)
