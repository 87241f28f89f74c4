"""Audit: compare expected occurrences with recorded executions, and cursors with schedules.

`audit_occurrences` and `audit_cursors` compare values. This module reads them, in batches.
`audit_tasks` checks that each task has exactly one execution.

The audit ignores occurrences

- before the retained history, the last change of the timetable (manual changes included) or the
  reactivation of a deprovisioned tenant;
- that a previous timetable fired until a scheduler picked up the change;
- that were fired after the audit read the cursor.

It compares cursors with schedules only for tenants that are in sync both before and after the read:
between a change and its refresh the two differ legitimately. Each batch of tenants takes a fixed
number of statements. Only the rows of one schedule are in memory at a time, and the audit reads
only the rows that it compares, so older history costs nothing.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import BATCHES_A_CONNECTION
from tenantcron.provider.tenant_schedules import read_schedules
from tenantcron.scheduler.inspect.audit_cursors import compare_cursors
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.scheduler.inspect.audit_occurrences import compare_occurrences, expected_occurrences
from tenantcron.scheduler.inspect.audit_tasks import audit_tasks
from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.store.connection.backends import replace_connection
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
class AuditReport:
    """The findings of an audit, and the period and number of items that it covers."""

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
) -> AuditReport:
    """Audit all tenants, or one."""
    async with database.transaction() as connection:
        now = await moment(connection, at)
        ids = await _ids(connection, tenant)
    kept = now - retention
    audited = AuditReport(max(kept, since) if since else kept, now, tenants=len(ids))
    audited.findings += await _repeated(database, tenant, audited.since)
    async with database.transaction() as connection:
        audited.findings += await audit_tasks(connection, tenant, audited.since, now)
    for number, start in enumerate(range(0, len(ids), TENANTS_A_BATCH), start=1):
        async with database.transaction() as connection:
            await _audit_batch(connection, ids[start : start + TENANTS_A_BATCH], audited)
            if number % BATCHES_A_CONNECTION == 0:
                replace_connection(connection)
    return audited


async def _ids(connection: AsyncConnection, tenant: TenantId | None) -> list[TenantId]:
    if tenant is not None:
        return [(await existing_tenant(connection, tenant)).id]
    return [row.id for row in await tenants.list_all(connection)]


async def _repeated(
    database: Database, tenant: TenantId | None, since: datetime
) -> list[AuditFinding]:
    """Report executions that a failover lost, and that may have run twice."""
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
    connection: AsyncConnection, ids: Sequence[TenantId], audited: AuditReport
) -> None:
    before = await tenants.find_many(connection, ids)
    cursors = await schedule_cursors.of_tenants(connection, ids)
    fleet = await read_schedules(connection, list(before.values()))
    after = await tenants.find_many(connection, ids)
    audited.schedules += len(cursors)
    audited.findings += [_unreadable(*broken) for broken in fleet.broken.items()]
    for tenant in ids:
        if tenant not in fleet.broken and _is_followed(before.get(tenant), after.get(tenant)):
            own = [cursor for cursor in cursors if cursor.tenant_id == tenant]
            audited.findings += compare_cursors(tenant, fleet.rows.get(tenant, []), own)
    begins = await _begins(
        connection, [before[tenant] for tenant in fleet.rows if tenant in before], audited
    )
    await _compare_all(connection, cursors, begins, audited)


async def _begins(
    connection: AsyncConnection, rows: Sequence[TenantRow], audited: AuditReport
) -> dict[Key, datetime]:
    """Return from when schedules are audited, if that is later than their `effective_from`.

    A tenant that was deprovisioned is audited from its reactivation. A timetable that was changed
    manually is audited from the change.
    """
    returns = await audit_records.last_returns(connection, [row.id for row in rows])
    schemas = {row.id: row.schema_name for row in rows}
    begins: dict[Key, datetime] = dict(
        await audit_records.timetable_changes(connection, schemas, audited.since)
    )
    return begins | {(tenant, ""): at for tenant, at in returns.items()}


def _is_followed(before: TenantRow | None, after: TenantRow | None) -> bool:
    """Whether the cursors are in sync, and the schedules did not change during the read."""
    if before is None or after is None or before.sync_fault is not None:
        return False
    return before.synced_revision == before.schedule_revision == after.schedule_revision


@dataclass(frozen=True, slots=True)
class _AuditedCursor:
    """A cursor, and the time after which its occurrences are audited."""

    cursor: CursorRow
    after: datetime

    @property
    def window(self) -> Window | None:
        """The period of its rows; None if it has fired nothing since."""
        cursor, last = self.cursor, self.cursor.last_run_at
        if last is None or last <= self.after:
            return None
        return Window(cursor.tenant_id, cursor.schedule_name, self.after, last)


async def _compare_all(
    connection: AsyncConnection,
    cursors: Sequence[CursorRow],
    begins: Mapping[Key, datetime],
    audited: AuditReport,
) -> None:
    """Compare each cursor when its rows arrive, then the cursors without rows."""
    left = {
        (cursor.tenant_id, cursor.schedule_name): _AuditedCursor(
            cursor, _audited_after(cursor, audited.since, begins)
        )
        for cursor in cursors
    }
    windows = [window for cursor in left.values() if (window := cursor.window) is not None]
    async for key, rows in _by_schedule(recorded(connection, windows)):
        _compare(left.pop(key), rows, audited)
    for remaining in left.values():
        _compare(remaining, [], audited)


async def _by_schedule(
    rows: AsyncIterator[Recorded],
) -> AsyncIterator[tuple[Key, list[Recorded]]]:
    """Group rows, which are ordered by schedule."""
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


def _audited_after(cursor: CursorRow, since: datetime, begins: Mapping[Key, datetime]) -> datetime:
    """Return the time after which the occurrences of a cursor are audited."""
    keys: tuple[Key, ...] = ((cursor.tenant_id, ""), (cursor.tenant_id, cursor.schedule_name))
    changes = [begins[key] for key in keys if key in begins]
    counted = cursor.counts_after or cursor.effective_from
    return max(counted, cursor.effective_from, since - timedelta.resolution, *changes)


def _compare(audited: _AuditedCursor, rows: Sequence[Recorded], report: AuditReport) -> None:
    try:
        expected = expected_occurrences(audited.cursor, audited.after)
    except TenantcronError:
        return  # the cursor cannot be evaluated, and `health` reports that
    report.occurrences += len(expected)
    report.findings += compare_occurrences(audited.cursor, expected, audited.after, rows)


def _unreadable(tenant: TenantId, fault: str) -> AuditFinding:
    message = f"its schedules cannot be read, so nothing was compared: {fault}"
    return AuditFinding(AuditCode.UNREADABLE, tenant, None, message)
