"""Tenants, cursors, executions and history for measurements, created in SQL."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog
from sqlalchemy import text

from tenantcron.core.quotas import QUOTAS
from tenantcron.core.settings import Settings
from tenantcron.cron.zones import tz_version
from tenantcron.migrations.runner import migrate_control
from tenantcron.provider.static_settings import DEFAULTS as DEFINITION
from tenantcron.scheduler.replica.housekeeping import prepare_history
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.rows import limits, schedule_definitions
from tenantcron.targets.capabilities import Capabilities

_TENANTS = text(
    "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at, quotas)"
    " SELECT 't' || i, 'tenant_t' || i, now(), now(), CAST(:quotas AS jsonb)"
    " FROM generate_series(1, :tenants) AS i"
)
# The timetable itself fires once a year; the due time is set here.
_CURSORS = text(
    "INSERT INTO tenantcron.schedule_cursor (schedule_id, tenant_id, schedule_name, saga_name,"
    " provider, cron_expr, timezone, tz_version, enabled, definition_id, effective_from,"
    " next_run_at)"
    " SELECT gen_random_uuid(), 't' || 1 + i % :tenants, :name || i, 'noop', 'bench', '0 0 1 1 *',"
    " 'UTC', :tz_version, true, :definition, now(),"
    " CAST(:due AS timestamptz) + i * make_interval(secs => :apart)"
    " FROM generate_series(1, :number) AS i"
)
# Each has its own schedule, which fires nothing more: an execution without a cursor is not started.
_PENDING = text(
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, overlap, priority, not_before, attempts_allowed,"
    " actor_id, actor_type, actor_source, created_at, requires)"
    " SELECT gen_random_uuid(), tenant_id, schedule_id, schedule_name, saga_name, definition_id,"
    " now(), 'PENDING', 'skip', 2, now(), 1, 'bench', 'scheduler', 'cron-scheduler', now(),"
    " 'saga:' || saga_name"
    " FROM tenantcron.schedule_cursor WHERE provider = 'bench'"
)
# Distributed evenly over the tenants and the last thirty days. The ids cover the full range in
# ascending order: an index inserts those quickly, and random ids land anywhere in it afterwards, as
# in a history that has grown.
_SPREAD = (
    " FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS i,"
    " LATERAL (SELECT CAST(lpad(to_hex(i * 4294967295 / :total), 8, '0') || '-0000-4000-8000-'"
    " || lpad(to_hex(i), 12, '0') AS uuid), date_trunc('minute', now())"
    " - make_interval(secs => 60 + 2592000.0 * (:total - i) / :total)) AS t (id, at)"
)
_PAST = text(
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, overlap, priority, not_before, attempt,"
    " attempts_allowed, worker_id, actor_id, actor_type, actor_source, created_at, started_at,"
    " finished_at)"
    " SELECT id, 't' || 1 + i % :tenants, id, 'h' || i % 20, 'noop', :definition, at, 'SUCCEEDED',"
    " 'skip', 2, at, 1, 1, 'bench', 'bench', 'scheduler', 'cron-scheduler', at, at, at" + _SPREAD
)
_QUOTA = text("UPDATE tenantcron.limits SET quotas = '{\"pending_tasks\": 1000000000}'")
# Ids in ascending order, as those of version 7.
_WAITING_TASKS = text(
    "INSERT INTO tenantcron.task (id, tenant_id, saga_name, execute_at, priority, payload,"
    " requires, submitted_at, actor_id, actor_type, actor_source, authenticated)"
    " SELECT CAST(lpad(to_hex(i), 32, '0') AS uuid), 't' || 1 + i % :tenants, 'noop',"
    " now() + interval '1 year' + make_interval(secs => i), 2, '{}', 'saga:noop', now(), 'bench',"
    " 'worker', 'sql', false FROM generate_series(1, CAST(:number AS bigint)) AS i"
)
_PAST_A_STATEMENT = 250_000
_CLEAR = (
    "TRUNCATE tenantcron.execution_live",
    "TRUNCATE tenantcron.schedule_cursor CASCADE",
    "DELETE FROM tenantcron.tenant WHERE id ~ '^t[0-9]+$'",
)
RAISED_LIMIT = 100_000
# What a replica of the benchmarks can run.
NOOP = Capabilities(("saga:noop",))


@dataclass(frozen=True, slots=True)
class Seeding:
    """A database that is filled for a measurement."""

    database: Database
    settings: Settings

    async def prepare(self) -> None:
        """Create the tables, the history partitions, one definition, and raised limits."""
        await migrate_control(self.database)
        await prepare_history(Replica(self.database, self.settings))
        async with self.database.transaction() as connection:
            definition_id = schedule_definitions.definition_id(DEFINITION)
            await schedule_definitions.add(connection, {definition_id: DEFINITION})
            await limits.declare(connection, RAISED_LIMIT, RAISED_LIMIT)

    async def add_tenants(self, tenants: int) -> None:
        """Add tenants without a schema, because the scheduler reads none."""
        async with self.database.transaction() as connection:
            # Far more starts than the default; they are counted still.
            quotas = json.dumps({"starts_per_minute": QUOTAS["starts_per_minute"].highest})
            await connection.execute(_TENANTS, {"tenants": tenants, "quotas": quotas})
            await connection.execute(text("ANALYZE tenantcron.tenant"))

    async def add_cursors(
        self,
        number: int,
        due: datetime | None,
        *,
        tenants: int,
        name: str = "s",
        apart: float = 0.0,
    ) -> None:
        """Add cursors that are due at once, one after the other, or never."""
        async with self.database.transaction() as connection:
            values = {
                "number": number,
                "due": due,
                "tenants": tenants,
                "name": name,
                "apart": apart,
            }
            await connection.execute(_CURSORS, values | self._common())
            await connection.execute(text("ANALYZE tenantcron.schedule_cursor"))

    async def add_pending(self, number: int, *, tenants: int) -> None:
        """Add executions that can start."""
        await self.add_cursors(number, None, tenants=tenants)
        async with self.database.transaction() as connection:
            await connection.execute(_PENDING)
            await connection.execute(text("ANALYZE tenantcron.execution_live"))

    async def add_waiting_tasks(self, number: int, *, tenants: int) -> None:
        """Add tasks that are due next year, and raise the quota."""
        async with self.database.transaction() as connection:
            await connection.execute(text("SET LOCAL synchronous_commit TO off"))
            await connection.execute(_QUOTA)
            await connection.execute(_WAITING_TASKS, {"number": number, "tenants": tenants})
            await connection.execute(text("ANALYZE tenantcron.task"))

    async def add_past(self, first: int, last: int, *, tenants: int) -> None:
        """Add history from `first` to `last`: executions that have succeeded."""
        for start in range(first, last, _PAST_A_STATEMENT):
            end = min(start + _PAST_A_STATEMENT, last)
            numbers = {"first": start, "last": end - 1, "total": last}
            async with self.database.transaction() as connection:
                await connection.execute(text("SET LOCAL synchronous_commit TO off"))
                await connection.execute(_PAST, numbers | {"tenants": tenants} | self._definition())
        async with self.database.transaction() as connection:
            await connection.execute(text("ANALYZE tenantcron.execution"))

    async def clear(self) -> None:
        """Remove what was added, except for the history."""
        async with self.database.transaction() as connection:
            for statement in _CLEAR:
                await connection.execute(text(statement))

    def _common(self) -> dict[str, str]:
        return self._definition() | {"tz_version": tz_version()}

    def _definition(self) -> dict[str, str]:
        return {"definition": str(schedule_definitions.definition_id(DEFINITION))}


@asynccontextmanager
async def seeding(url: str) -> AsyncIterator[Seeding]:
    """Open a database to fill it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    settings = Settings(folder=Path(), database_url=url)
    async with open_database(settings) as database:
        yield Seeding(database, settings)
