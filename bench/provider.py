"""The cost of syncing a fleet: reading all schedules, the first refresh, and one tenant's change.

    .venv/bin/python bench/provider.py [--tenants 500 5000] [--schedules 10]

Runs on a fresh embedded server with its durable defaults, in a temporary folder, and exits with 1
if a goal is missed. `read` is everything that the provider returns, read with connections that have
cached none of it. `first` is the first refresh: every tenant has changed, and every cursor is
computed and written. `one change` is the median of 50 refreshes, each after an edit of one tenant's
timetable; it must not grow with the number of tenants.
"""

import argparse
import asyncio
import gc
import sys
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter

from serving import Workspace, add_database_url, server
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import DEFAULT_PATTERN
from tenantcron.migrations.runner import migrate_control
from tenantcron.provider.refresh import BATCHES_A_CONNECTION, Refreshed, refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.backends import replace_connection
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import Scope
from tenantcron.store.schema import tenant_tables

TENANTS_A_TRANSACTION = 25
CHANGES = 50
# Seconds for 5,000 tenants of 10 schedules, and milliseconds.
READ, ONE_CHANGE = 6.0, 20.0

# Without an actor, so the trigger increments the revision, as it does for any manual change.
FILL = """
INSERT INTO {schema}.tenant_schedule (id, schedule_name, saga_name, cron_expr, timezone, enabled,
    manifest_version_id, definition, created_at, updated_at)
SELECT gen_random_uuid(), 'saga-' || n, 'saga-' || n, (n * 7 % 60) || ' ' || n % 24 || ' * * *',
    (ARRAY['UTC', 'Europe/London', 'America/New_York', 'Asia/Kolkata'])[n % 4 + 1], true,
    gen_random_uuid(), jsonb_build_object('overlap', 'skip', 'catch_up', 'once', 'timeout', '5m',
    'retry', jsonb_build_object('max_attempts', 3, 'backoff', '1s', 'max_backoff', '1m'),
    'payload', jsonb_build_object('part', n)), now(), now()
FROM generate_series(1, %SCHEDULES%) AS n
"""
EDIT = """
UPDATE {schema}.tenant_schedule SET effective_from = now(),
    cron_expr = CASE cron_expr WHEN '5 5 * * *' THEN '6 6 * * *' ELSE '5 5 * * *' END
WHERE schedule_name = 'saga-1'
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """The refreshes of a fleet."""

    tenants: int
    schedules: int
    read: float
    first: float
    one_change: float
    slowest: float
    megabytes: float

    @property
    def missed(self) -> bool:
        """Whether a goal is missed; the goal for reading is for a large fleet."""
        return self.read > READ or self.one_change * 1_000 > ONE_CHANGE


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, nargs="+", default=[500, 5_000])
    parser.add_argument("--schedules", type=int, default=10)
    add_database_url(parser)
    arguments = parser.parse_args()
    measured = []
    for count in arguments.tenants:
        with server(arguments.database_url) as place:
            measured.append(asyncio.run(_measure(place, count, arguments.schedules)))
    _report(measured)
    return int(any(result.missed for result in measured))


async def _measure(place: Workspace, count: int, schedules: int) -> Measured:
    async with open_database(place.settings) as database:
        await migrate_control(database)
        names = [TenantId(f"t{number:05}") for number in range(count)]
        await _fill(database, names, schedules)
        gc.collect()
        before = _megabytes()
        read = await _read(database, count * schedules)
        seconds, done = await _timed(database)
        if done.created != count * schedules or done.broken:
            raise RuntimeError(f"unexpected refresh: {done}")
        grown = _megabytes() - before
        times = [await _one_change(database, names[n * 37 % count]) for n in range(CHANGES)]
    return Measured(count, schedules, read, seconds, median(times), max(times), grown)


async def _read(database: Database, expected: int) -> float:
    """Read everything, as an audit does: one transaction per batch of tenants."""
    provider, after, found, batches = TenantScheduleProvider(), None, 0, 0
    begin = perf_counter()
    while True:
        async with database.transaction() as connection:
            batch = await provider.tenants(connection, Scope.ALL, after)
            batches += 1
            if batches % BATCHES_A_CONNECTION == 0:
                replace_connection(connection)
        if not batch:
            break
        found, after = found + sum(len(tenant.schedules) for tenant in batch), batch[-1].tenant_id
    if found != expected:
        raise RuntimeError(f"{found} schedules were read instead of {expected}")
    return perf_counter() - begin


async def _fill(database: Database, names: list[TenantId], schedules: int) -> None:
    for start in range(0, len(names), TENANTS_A_TRANSACTION):
        async with database.transaction() as connection:
            for name in names[start : start + TENANTS_A_TRANSACTION]:
                await _add(connection, name, schedules)
            # A backend that has created very many tables becomes slow.
            replace_connection(connection)
    async with database.transaction() as connection:
        await connection.exec_driver_sql("ANALYZE tenantcron.tenant")


async def _add(connection: AsyncConnection, name: TenantId, schedules: int) -> None:
    schema = DEFAULT_PATTERN.name_for(name)
    await tenants.add(connection, name, schema)
    await tenant_tables.create_tenant_schema(connection, schema)
    fill = for_schema(FILL, schema).replace("%SCHEDULES%", str(schedules))
    await connection.run_sync(run_script, fill)


async def _one_change(database: Database, name: TenantId) -> float:
    async with database.transaction() as connection:
        await connection.run_sync(run_script, for_schema(EDIT, DEFAULT_PATTERN.name_for(name)))
    seconds, done = await _timed(database)
    if (done.tenants, done.updated) != (1, 1):
        raise RuntimeError(f"unexpected refresh: {done}")
    return seconds


async def _timed(database: Database) -> tuple[float, Refreshed]:
    begin = perf_counter()
    done = await refresh(database, TenantScheduleProvider())
    return perf_counter() - begin, done


def _megabytes() -> float:
    return getrusage(RUSAGE_SELF).ru_maxrss / 1_024


def _report(measured: list[Measured]) -> None:
    print(f"goals: read under {READ:.0f} s, one change under {ONE_CHANGE:.0f} ms (median)")
    heads = (
        ("schedules", 11),
        ("read, s", 9),
        ("first, s", 10),
        ("one change, ms", 16),
        ("slowest", 9),
        ("MB", 6),
    )
    print(f"{'tenants':>8}" + "".join(f"{head:>{width}}" for head, width in heads))
    for fleet in measured:
        schedules = fleet.tenants * fleet.schedules
        print(
            f"{fleet.tenants:8,}{schedules:11,}{fleet.read:9.2f}{fleet.first:10.2f}"
            f"{fleet.one_change * 1_000:16.1f}{fleet.slowest * 1_000:9.1f}{fleet.megabytes:6.0f}"
            f" {'missed' if fleet.missed else ''}"
        )


if __name__ == "__main__":
    sys.exit(main())
