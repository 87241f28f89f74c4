"""Audit: holds what should have fired against what is on record, and cursors against schedules.

For each cursor the occurrences of its timetable are reckoned anew, up to the last one that it says
was fired. Each of them must be the time of one row or lie in the cover of exactly one, from
`covers_from` to `scheduled_for`. Anything else is a finding:

- **lost**: no row stands for it;
- **doubled**: two rows do;
- **unexpected**: a row that is no occurrence, and that nobody triggered by hand.

Not judged: what lies before the kept history, before the timetable became what it is, be it by
hand, or before a deprovisioned tenant came back; what the timetable before it fired until a
scheduler took the change up; and what was fired after the cursor was read.

Cursors and schedules are compared only for tenants that are followed, before and after the reading:
who is between a change and its refresh differs rightly. It works through a batch of tenants at a
time, with a fixed number of statements, and holds the rows of one schedule at a time in memory.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby, takewhile

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.words import in_utc
from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.zones import zone
from tenantcron.provider.refresh import BATCHES_A_CONNECTION
from tenantcron.provider.tenant_schedules import TenantScheduleProvider, read_schedules
from tenantcron.scheduler.due import timetable_of
from tenantcron.scheduler.situation import existing_tenant
from tenantcron.store import audit_records, execution_history, schedule_cursors, tenants
from tenantcron.store.backends import give_up
from tenantcron.store.engine import Database
from tenantcron.store.execution_history import Recorded
from tenantcron.store.executions import execution_id
from tenantcron.store.schedule_cursors import CursorRow
from tenantcron.store.schedule_definitions import definition_id
from tenantcron.store.schedule_rows import ScheduleRow
from tenantcron.store.tenants import TenantRow
from tenantcron.store.times import moment

TENANTS_A_BATCH = 50
_PROVIDER = TenantScheduleProvider().name
# What a cursor takes over from its schedule.
_FOLLOWED = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "effective_from")

Key = tuple[TenantId, str]


class AuditCode(StrEnum):
    """What can be wrong."""

    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPECTED = "unexpected"
    MISSING_CURSOR = "missing-cursor"
    ORPHANED_CURSOR = "orphaned-cursor"
    DIFFERENT_CURSOR = "different-cursor"
    UNREADABLE = "unreadable"


_HINTS = {
    AuditCode.LOST: "nothing ran for it and nothing says why: `tenantcron schedule trigger` makes "
    "up for it; keep the rows around it and report a bug",
    AuditCode.DOUBLED: "look with `tenantcron execution list` whether both ran; report a bug "
    "unless somebody wrote rows by hand",
    AuditCode.UNEXPECTED: "somebody wrote it by hand, or the timetable was changed by hand: apply "
    "the manifest again",
    AuditCode.MISSING_CURSOR: "`tenantcron health` tells if the tenant cannot be followed; apply a "
    "manifest that changes anything, so that the tenant is looked at again",
    AuditCode.ORPHANED_CURSOR: "it fires what no manifest declares: apply a manifest that changes "
    "anything, so that the tenant is looked at again",
    AuditCode.DIFFERENT_CURSOR: "somebody has changed the cursor: apply a manifest that changes "
    "anything, so that the tenant is looked at again",
    AuditCode.UNREADABLE: "`tenantcron migrate` mends missing tables",
}


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is not as it should be."""

    code: AuditCode
    tenant: TenantId
    schedule: str | None
    message: str
    since: datetime | None = None
    until: datetime | None = None
    count: int = 1

    @property
    def hint(self) -> str:
        """What to do next."""
        return _HINTS[self.code]


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


async def _judge_all(
    connection: AsyncConnection,
    cursors: Sequence[CursorRow],
    begins: Mapping[Key, datetime],
    audited: Audited,
) -> None:
    """Judge cursor by cursor, as their rows come along; then those that have none."""
    left: dict[Key, CursorRow] = {(one.tenant_id, one.schedule_name): one for one in cursors}

    def judged(key: Key, rows: list[Recorded]) -> None:
        cursor = left.pop(key, None)
        if cursor is not None:
            _judge_one(cursor, _judged_after(cursor, audited.since, begins), rows, audited)

    key: Key | None = None
    rows: list[Recorded] = []
    tenant_ids = list({one.tenant_id for one in cursors})
    async for row in execution_history.recorded(connection, tenant_ids, audited.since):
        if key is not None and key != (row.tenant_id, row.schedule_name):
            judged(key, rows)
            rows = []
        key = (row.tenant_id, row.schedule_name)
        rows.append(row)
    if key is not None:
        judged(key, rows)
    for rest in list(left):
        judged(rest, [])


def _judged_after(cursor: CursorRow, since: datetime, begins: Mapping[Key, datetime]) -> datetime:
    """Return the moment after which occurrences are judged."""
    keys: tuple[Key, ...] = ((cursor.tenant_id, ""), (cursor.tenant_id, cursor.schedule_name))
    told = [begins[key] for key in keys if key in begins]
    counted = cursor.counts_after or cursor.effective_from
    return max(counted, cursor.effective_from, since - timedelta.resolution, *told)


def _judge_one(
    cursor: CursorRow, after: datetime, rows: Sequence[Recorded], audited: Audited
) -> None:
    try:
        expected = expected_occurrences(cursor, after)
    except TenantcronError:
        return  # it cannot be evaluated, and `health` says so
    audited.occurrences += len(expected)
    audited.findings += judge(cursor, expected, after, rows)


def expected_occurrences(cursor: CursorRow, after: datetime) -> list[datetime]:
    """Return what must have been fired by what the cursor says."""
    last = cursor.last_run_at
    if last is None or last <= after:
        return []
    occurrences = upcoming(timetable_of(cursor.cron_expr), zone(cursor.timezone), after)
    return list(takewhile(lambda one: one <= last, occurrences))


def judge(
    cursor: CursorRow, expected: Sequence[datetime], after: datetime, rows: Sequence[Recorded]
) -> list[AuditFinding]:
    """Hold the rows of a schedule against its occurrences after a moment."""
    own = [row for row in rows if _is_judged(row, cursor, after)]
    covers = _covers(expected, own)
    return [
        *_spans(cursor, expected, covers, AuditCode.LOST, lambda count: count == 0),
        *_spans(cursor, expected, covers, AuditCode.DOUBLED, lambda count: count > 1),
        *_unexpected(cursor, expected, own),
    ]


def _is_judged(row: Recorded, cursor: CursorRow, after: datetime) -> bool:
    # What another schedule of the same name has left behind is none of this one's.
    if row.schedule_id != cursor.schedule_id or cursor.last_run_at is None:
        return False
    return after < row.scheduled_for <= cursor.last_run_at


def _covers(expected: Sequence[datetime], rows: Sequence[Recorded]) -> list[int]:
    """Count for each occurrence the rows that stand for it."""
    steps = [0] * (len(expected) + 1)
    for row in rows:
        steps[bisect_left(expected, row.covers_from or row.scheduled_for)] += 1
        steps[bisect_right(expected, row.scheduled_for)] -= 1
    covers, number = [], 0
    for step in steps[:-1]:
        number += step
        covers.append(number)
    return covers


def _spans(
    cursor: CursorRow,
    expected: Sequence[datetime],
    covers: Sequence[int],
    code: AuditCode,
    is_wrong: Callable[[int], bool],
) -> Iterator[AuditFinding]:
    """Yield one finding for neighbours that are wrong in the same way."""
    pairs = zip(expected, covers, strict=True)
    for wrong, neighbours in groupby(pairs, key=lambda pair: is_wrong(pair[1])):
        if not wrong:
            continue
        times = [time for time, _ in neighbours]
        words = {AuditCode.LOST: "no row stands for", AuditCode.DOUBLED: "two rows stand for"}
        yield AuditFinding(
            code,
            cursor.tenant_id,
            cursor.schedule_name,
            f"{words[code]} {_occurrences(times)}",
            times[0],
            times[-1],
            len(times),
        )


def _occurrences(times: Sequence[datetime]) -> str:
    if len(times) == 1:
        return f"the occurrence of {in_utc(times[0])}"
    return f"{len(times)} occurrences from {in_utc(times[0])} to {in_utc(times[-1])}"


def _is_unexpected(row: Recorded, expected: Sequence[datetime]) -> bool:
    place = bisect_left(expected, row.scheduled_for)
    is_occurrence = place < len(expected) and expected[place] == row.scheduled_for
    return not is_occurrence or row.id != execution_id(row.schedule_id, row.scheduled_for)


def _unexpected(
    cursor: CursorRow, expected: Sequence[datetime], rows: Sequence[Recorded]
) -> Iterator[AuditFinding]:
    """Yield one finding for neighbours that are no occurrences."""
    timetable = f"of the timetable `{cursor.cron_expr}` in {cursor.timezone}"
    for wrong, neighbours in groupby(rows, key=lambda row: _is_unexpected(row, expected)):
        if not wrong:
            continue
        some = list(neighbours)
        first, last = some[0], some[-1]
        what = f"execution {first.id} of {in_utc(first.scheduled_for)} is no occurrence {timetable}"
        if len(some) > 1:
            others = f"nor are the {len(some) - 1} after it, up to {in_utc(last.scheduled_for)}"
            what = f"{what}, {others}"
        yield AuditFinding(
            AuditCode.UNEXPECTED,
            cursor.tenant_id,
            cursor.schedule_name,
            what,
            first.scheduled_for,
            last.scheduled_for,
            len(some),
        )


def compare(
    tenant: TenantId, schedules: Sequence[ScheduleRow], cursors: Sequence[CursorRow]
) -> list[AuditFinding]:
    """Hold the cursors of a tenant that is followed against its schedules."""
    followed = {one.schedule_id: one for one in cursors if one.provider == _PROVIDER}
    declared = {one.id: one for one in schedules}
    pairs = [(one, followed[one.id]) for one in schedules if one.id in followed]
    return [
        *(_missing(tenant, one) for one in schedules if one.id not in followed),
        *(_orphaned(one) for one in followed.values() if one.schedule_id not in declared),
        *(_different(*pair) for pair in pairs if _differences(*pair)),
    ]


def _missing(tenant: TenantId, schedule: ScheduleRow) -> AuditFinding:
    message = "the schedule has no cursor, so it never fires"
    return AuditFinding(AuditCode.MISSING_CURSOR, tenant, schedule.schedule_name, message)


def _orphaned(cursor: CursorRow) -> AuditFinding:
    message = "there is a cursor, but the tenant has no such schedule"
    return AuditFinding(AuditCode.ORPHANED_CURSOR, cursor.tenant_id, cursor.schedule_name, message)


def _differences(schedule: ScheduleRow, cursor: CursorRow) -> list[str]:
    names = [name for name in _FOLLOWED if getattr(schedule, name) != getattr(cursor, name)]
    same = definition_id(schedule.definition) == cursor.definition_id
    return names if same else [*names, "definition"]


def _different(schedule: ScheduleRow, cursor: CursorRow) -> AuditFinding:
    told = ", ".join(_difference(name, schedule, cursor) for name in _differences(schedule, cursor))
    message = f"the cursor does not follow the schedule: {told}"
    return AuditFinding(
        AuditCode.DIFFERENT_CURSOR, cursor.tenant_id, schedule.schedule_name, message
    )


def _difference(name: str, schedule: ScheduleRow, cursor: CursorRow) -> str:
    if name == "definition":
        return "definition"
    return f"{name} is {getattr(cursor, name)}, not {getattr(schedule, name)}"


def _unreadable(tenant: TenantId, fault: str) -> AuditFinding:
    message = f"its schedules cannot be read, so nothing was compared: {fault}"
    return AuditFinding(AuditCode.UNREADABLE, tenant, None, message)
