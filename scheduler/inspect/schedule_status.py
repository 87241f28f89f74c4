"""The status of a schedule: everything that decides whether it runs, as values.

`schedule show` prints it, and `why` explains it. Reading it needs only read privileges.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import NotFoundError, TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject
from tenantcron.provider.tenant_schedules import read_schedules
from tenantcron.scheduler.inspect.start_conditions import (
    StartConditions,
    alive,
    read_start_conditions,
)
from tenantcron.schedules.pause import Pause, in_force
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.schedules.upcoming import NEXT_EXECUTIONS, next_executions
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import (
    audit_records,
    execution_history,
    schedule_cursors,
    schedule_definitions,
    tenants,
    workers,
)
from tenantcron.store.rows.audit_records import AuditRow
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionFilter, ExecutionRow
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.schedule_rows import ScheduleRow
from tenantcron.store.rows.tenants import TenantRow

LAST_EXECUTIONS = 5
LAST_CHANGES = 5


class UnknownError(NotFoundError):
    """The tenant, schedule or execution does not exist; the message suggests the closest name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus(StartConditions):
    """A schedule, or its remaining cursor, with its tenant, executions, limits and replicas."""

    ref: ScheduleRef
    lease: timedelta
    # As declared in the manifest; None for a static schedule or a deleted one.
    schedule: ScheduleRow | None
    # None: no scheduler has picked up the schedule yet.
    cursor: CursorRow | None
    definition: JsonObject
    unfinished: tuple[ExecutionRow, ...]
    last: tuple[ExecutionRow, ...]
    last_attempt: AttemptRow | None
    # Changes, pauses and resumes, newest first.
    changes: tuple[AuditRow, ...]

    @property
    def timetable(self) -> tuple[str, str]:
        """The expression and its time zone: the schedule's, else the cursor's."""
        source = self.schedule or self.cursor
        return (source.cron_expr, source.timezone) if source else ("", "")

    @property
    def timetable_limits(self) -> str:
        """What limits the occurrences of the timetable, for people; empty if nothing does."""
        try:
            return zoned_timetable(*self.timetable).limits(self.now)
        except TenantcronError:
            return ""

    @property
    def saga(self) -> str:
        """The name of its saga."""
        source = self.schedule or self.cursor
        return source.saga_name if source else ""

    @property
    def enabled(self) -> bool:
        """Whether the schedule is enabled."""
        source = self.schedule or self.cursor
        return source is not None and source.enabled

    @property
    def pause(self) -> Pause | None:
        """The pause that is in force now."""
        return in_force(self.cursor.pause if self.cursor else None, self.now)

    def next_executions(self, count: int = NEXT_EXECUTIONS) -> tuple[datetime, ...]:
        """Return the next occurrences that start, in local time; raise for a bad timetable."""
        if not self.enabled:
            return ()
        return next_executions(*self.timetable, self.now, self.pause, count)


async def is_scheduler_running(database: Database, lease: timedelta) -> bool:
    """Whether a replica has sent a heartbeat recently."""
    async with database.transaction() as connection:
        replicas = await workers.list_all(connection)
        return bool(alive(replicas, await times.database_time(connection), lease))


async def read_schedule_status(
    connection: AsyncConnection, ref: ScheduleRef, lease: timedelta, at: datetime | None
) -> ScheduleStatus:
    """Read the status; raise UnknownError if the schedule or its tenant does not exist."""
    tenant = await existing_tenant(connection, ref.tenant)
    start = await read_start_conditions(connection, tenant, lease, at)
    fleet = await read_schedules(connection, [tenant])
    schedules = {row.schedule_name: row for row in fleet.rows.get(tenant.id, ())}
    cursor = await schedule_cursors.find(connection, ref.tenant, ref.schedule)
    schedule = schedules.get(ref.schedule)
    if schedule is None and cursor is None:
        raise await unknown_schedule(connection, ref, schedules)
    last = await execution_history.newest(
        connection, ExecutionFilter(ref.tenant, ref.schedule), LAST_EXECUTIONS
    )
    return ScheduleStatus(
        ref=ref,
        now=start.now,
        lease=lease,
        tenant=tenant,
        schedule=schedule,
        cursor=cursor,
        definition=await _definition(connection, schedule, cursor),
        unfinished=await _unfinished(connection, cursor),
        last=tuple(last),
        last_attempt=await _last_attempt(connection, last),
        changes=tuple(
            await audit_records.of_schedule(
                connection,
                ref.tenant,
                None if tenant.id in fleet.broken else tenant.schema_name,
                ref.schedule,
                limit=LAST_CHANGES,
            )
        ),
        limits=start.limits,
        running=start.running,
        running_of_tenant=start.running_of_tenant,
        replicas=start.replicas,
        former_replicas=start.former_replicas,
        source=start.source,
        starts=start.starts,
        start_quota=start.start_quota,
    )


async def existing_tenant(connection: AsyncConnection, tenant: TenantId) -> TenantRow:
    """Return a tenant that must exist; the error suggests the closest name."""
    found = await tenants.find(connection, tenant)
    if found is not None:
        return found
    meant = close_match(tenant, (row.id for row in await tenants.list_all(connection)))
    hint = f"did you mean `{meant}`?" if meant else "`tenantcron tenant list` lists all tenants"
    raise UnknownError(f"tenant `{tenant}` does not exist", hint)


async def require_schedule(connection: AsyncConnection, ref: ScheduleRef) -> None:
    """Raise UnknownError for a schedule that neither a manifest nor a cursor has."""
    tenant = await existing_tenant(connection, ref.tenant)
    fleet = await read_schedules(connection, [tenant])
    names = {row.schedule_name for row in fleet.rows.get(tenant.id, ())}
    if ref.schedule in names:
        return
    if await schedule_cursors.find(connection, ref.tenant, ref.schedule) is None:
        raise await unknown_schedule(connection, ref, names)


async def unknown_schedule(
    connection: AsyncConnection, ref: ScheduleRef, names: Iterable[str]
) -> UnknownError:
    """Return the error for an unknown schedule, with the closest name."""
    cursors = await schedule_cursors.of_tenants(connection, [ref.tenant])
    known = {*names, *(cursor.schedule_name for cursor in cursors)}
    meant = close_match(ref.schedule, sorted(known))
    hint = (
        f"did you mean `{ref.tenant}/{meant}`?"
        if meant
        else f"`tenantcron schedule list {ref.tenant}` lists all schedules"
    )
    return UnknownError(f"tenant `{ref.tenant}` has no schedule `{ref.schedule}`", hint)


async def _definition(
    connection: AsyncConnection, schedule: ScheduleRow | None, cursor: CursorRow | None
) -> JsonObject:
    if schedule is not None:
        return schedule.definition if isinstance(schedule.definition, dict) else {}
    if cursor is None:
        return {}
    stored = await schedule_definitions.read(connection, [cursor.definition_id])
    return stored.get(cursor.definition_id, {})


async def _unfinished(
    connection: AsyncConnection, cursor: CursorRow | None
) -> tuple[ExecutionRow, ...]:
    if cursor is None:
        return ()
    found = await execution_history.unfinished_of(connection, cursor.tenant_id, cursor.schedule_id)
    return tuple(found)


async def _last_attempt(connection: AsyncConnection, last: list[ExecutionRow]) -> AttemptRow | None:
    if not last:
        return None
    newest = last[0]
    attempts = await execution_history.attempts_of(connection, newest)
    return attempts[-1] if attempts else None
