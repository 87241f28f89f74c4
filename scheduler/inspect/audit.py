"""Audit: holds what should have fired against what is on record, and cursors against schedules.

`audit_occurrences` and `audit_cursors` judge; here is what they judge, read batch by batch.

Not judged: what lies before the kept history, before the timetable became what it is, be it by
hand, or before a deprovisioned tenant came back; what the timetable before it fired until a
scheduler took the change up; and what was fired after the cursor was read.

Cursors and schedules are compared only for tenants that are followed, before and after the reading:
who is between a change and its refresh differs rightly. It works through a batch of tenants at a
time, with a fixed number of statements, and holds the rows of one schedule at a time in memory.
Of each schedule it reads only the rows that it judges, so older history costs nothing.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import BATCHES_A_CONNECTION
from tenantcron.provider.tenant_schedules import read_schedules
from tenantcron.scheduler.inspect.audit_cursors import compare
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.scheduler.inspect.audit_occurrences import expected_occurrences, judge
from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.store.connection.backends import give_up
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import moment
from tenantcron.store.rows import audit_records, failovers, schedule_cursors, tenants
from tenantcron.store.rows.failovers import LossRow
from tenantcron.store.rows.recorded_occurrences import Recorded, Window, recorded
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.tenants import TenantRow

TENANTS_A_BATCH = 50

Key = tuple[TenantId, str]


@dataclass(slots=True)
class Audited:
    """How much was looked at, since when, and what was found."""

    since: datetime
    until: datetime
    tenants: int = 0
    schedules: int = 0
    occurrences: int = 0
    findings: list[AuditFinding] = field(default_factory=list)


async def audit(
    database: Database,
    retention: timedelta,
    *,
    tenant: TenantId | None = None,
    since: datetime | None = None,
    at: datetime | None = None,
) -> Audited:
    """Audit all tenants, or one."""
    async with database.transaction() as connection:
        now = await moment(connection, at)
        ids = await _ids(connection, tenant)
    kept = now - retention
    audited = Audited(max(kept, since) if since else kept, now, tenants=len(ids))
    audited.findings += await _repeated(database, tenant, audited.since)
    for number, start in enumerate(range(0, len(ids), TENANTS_A_BATCH), start=1):
        async with database.transaction() as connection:
            await _audit_batch(connection, ids[start : start + TENANTS_A_BATCH], audited)
            if number % BATCHES_A_CONNECTION == 0:
                give_up(connection)
    return audited


async def _ids(connection: AsyncConnection, tenant: TenantId | None) -> list[TenantId]:
    if tenant is not None:
        return [(await existing_tenant(connection, tenant)).id]
    return [row.id for row in await tenants.list_all(connection)]


async def _repeated(
    database: Database, tenant: TenantId | None, since: datetime
) -> list[AuditFinding]:
    """Report what a failover has lost, and so may have run twice."""
    chosen = None if tenant is None else [tenant]
    async with database.transaction() as connection:
        found = await failovers.losses(connection, since, tenants=chosen)
    return [_may_repeat(loss) for loss in found.rows]


def _may_repeat(loss: LossRow) -> AuditFinding:
    what = "result" if loss.lost == "result" else "start"
    message = (
        f"execution {loss.execution_id} may have run twice: the {what} of attempt {loss.attempt} "
        f"was lost in the failover to timeline {loss.timeline}"
    )
    return AuditFinding(
        AuditCode.MAY_REPEAT,
        loss.tenant_id,
        loss.schedule_name,
        message,
        since=loss.scheduled_for,
        until=loss.scheduled_for,
    )


async def _audit_batch(
    connection: AsyncConnection, ids: Sequence[TenantId], audited: Audited
) -> None:
    before = await tenants.find_many(connection, ids)
    cursors = await schedule_cursors.of_tenants(connection, ids)
    fleet = await read_schedules(connection, list(before.values()))
    after = await tenants.find_many(connection, ids)
    audited.schedules += len(cursors)
    audited.findings += [_unreadable(*broken) for broken in fleet.broken.items()]
    for tenant in ids:
        if tenant not in fleet.broken and _is_followed(before.get(tenant), after.get(tenant)):
            own = [one for one in cursors if one.tenant_id == tenant]
            audited.findings += compare(tenant, fleet.rows.get(tenant, []), own)
    begins = await _begins(
        connection, [before[one] for one in fleet.rows if one in before], audited
    )
    await _judge_all(connection, cursors, begins, audited)


async def _begins(
    connection: AsyncConnection, rows: Sequence[TenantRow], audited: Audited
) -> dict[Key, datetime]:
    """Return since when schedules count, where their `effective_from` does not tell.

    A tenant that was deprovisioned counts from its return, a timetable that was changed by hand
    from the change.
    """
    returns = await audit_records.last_returns(connection, [row.id for row in rows])
    schemas = {row.id: row.schema_name for row in rows}
    begins: dict[Key, datetime] = dict(
        await audit_records.timetable_changes(connection, schemas, audited.since)
    )
    return begins | {(tenant, ""): at for tenant, at in returns.items()}


def _is_followed(before: TenantRow | None, after: TenantRow | None) -> bool:
    """Whether nothing has changed while it was read, and the cursors follow all of it."""
    if before is None or after is None or before.sync_fault is not None:
        return False
    return before.synced_revision == before.schedule_revision == after.schedule_revision


@dataclass(frozen=True, slots=True)
class _Judged:
    """A cursor, and the moment after which its occurrences are judged."""

    cursor: CursorRow
    after: datetime

    @property
    def window(self) -> Window | None:
        """Where its rows lie; None if it has fired nothing since."""
        cursor, last = self.cursor, self.cursor.last_run_at
        if last is None or last <= self.after:
            return None
        return Window(cursor.tenant_id, cursor.schedule_name, self.after, last)


async def _judge_all(
    connection: AsyncConnection,
    cursors: Sequence[CursorRow],
    begins: Mapping[Key, datetime],
    audited: Audited,
) -> None:
    """Judge cursor by cursor, as their rows arrive; then those that have none."""
    left = {
        (cursor.tenant_id, cursor.schedule_name): _Judged(
            cursor, _judged_after(cursor, audited.since, begins)
        )
        for cursor in cursors
    }
    windows = [window for judged in left.values() if (window := judged.window) is not None]
    async for key, rows in _by_schedule(recorded(connection, windows)):
        _judge(left.pop(key), rows, audited)
    for judged in left.values():
        _judge(judged, [], audited)


async def _by_schedule(
    rows: AsyncIterator[Recorded],
) -> AsyncIterator[tuple[Key, list[Recorded]]]:
    """Group rows, which come ordered by schedule."""
    key: Key | None = None
    group: list[Recorded] = []
    async for row in rows:
        if key is not None and key != (row.tenant_id, row.schedule_name):
            yield key, group
            group = []
        key = (row.tenant_id, row.schedule_name)
        group.append(row)
    if key is not None:
        yield key, group


def _judged_after(cursor: CursorRow, since: datetime, begins: Mapping[Key, datetime]) -> datetime:
    """Return the moment after which occurrences are judged."""
    keys: tuple[Key, ...] = ((cursor.tenant_id, ""), (cursor.tenant_id, cursor.schedule_name))
    told = [begins[key] for key in keys if key in begins]
    counted = cursor.counts_after or cursor.effective_from
    return max(counted, cursor.effective_from, since - timedelta.resolution, *told)


def _judge(judged: _Judged, rows: Sequence[Recorded], audited: Audited) -> None:
    try:
        expected = expected_occurrences(judged.cursor, judged.after)
    except TenantcronError:
        return  # it cannot be evaluated, and `health` reports that
    audited.occurrences += len(expected)
    audited.findings += judge(judged.cursor, expected, judged.after, rows)


def _unreadable(tenant: TenantId, fault: str) -> AuditFinding:
    message = f"its schedules cannot be read, so nothing was compared: {fault}"
    return AuditFinding(AuditCode.UNREADABLE, tenant, None, message)
