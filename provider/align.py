"""Align: what a cursor must be, given its schedule and what it was. Values in, values out.

- A new schedule counts from `effective_from`, the moment of the apply: nothing before it fires, and
  what came due since then, because nothing ran, is the fire step's to judge as missed.
- A tenant that was deprovisioned and returns counts from its return: nothing is fired back.
- A timetable is `cron_expr`, `timezone` and `enabled`. While it stays, the cursor keeps its next
  occurrence, its history and its pause; the rest follows the schedule.
- A changed timetable counts from its `effective_from`, if that moved along, else (a change by hand)
  from now; never from before the last occurrence that was fired. So an edit neither fires back nor
  fires again. The same holds for a timetable that was changed and changed back in the meantime.
- A schedule that cannot be evaluated has a fault and no next occurrence. The fault goes when the
  schedule is mended. A fault that somebody else found stays until the schedule changes.
- A tenant that cannot be read: its cursors keep all they have, and get a fault that holds them.
  When it can be read again they go on from there, and what was missed is up to the catch-up.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from tenantcron.core.names import TenantId
from tenantcron.cron.errors import CronError
from tenantcron.cron.occurrences import next_occurrence
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import Timetable
from tenantcron.cron.zones import UnknownZoneError, zone
from tenantcron.provider.protocol import ProvidedSchedule
from tenantcron.store.schedule_cursors import CursorRow
from tenantcron.store.schedule_definitions import definition_id

UNREADABLE = "the tenant's schedules cannot be read"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the schedules of a tenant have in common when they are looked at."""

    provider: str
    tenant_id: TenantId
    now: datetime
    tz_version: str
    # Nothing new is counted from before it: the tenant was away until then.
    returned_at: datetime | None = None


def align(
    provided: ProvidedSchedule, cursor: CursorRow | None, circumstances: Circumstances
) -> CursorRow:
    """Return the cursor that the schedule asks for; equal to the one given if all is in line."""
    if cursor is None:
        return _fresh(provided, circumstances)
    changed = replace(
        cursor,
        schedule_name=provided.schedule_name,
        saga_name=provided.saga_name,
        definition_id=definition_id(provided.definition),
        effective_from=provided.effective_from or cursor.effective_from,
    )
    if _is_same_timetable(provided, cursor):
        return _kept(changed, provided, cursor, circumstances)
    return _recounted(changed, provided, _counts_from(provided, cursor, circumstances))


def set_aside(cursor: CursorRow, why: str) -> CursorRow:
    """Return the cursor of a tenant that cannot be read: held where it is."""
    return replace(cursor, fault=f"{UNREADABLE}: {why}")


def rezone(cursor: CursorRow, now: datetime, tz_version: str) -> CursorRow:
    """Return the cursor with what lies ahead placed by another version of the zones.

    Where that makes a difference it counts from now: what the older zones have placed before is not
    to be held against the newer ones.
    """
    fault = _timetable_fault(cursor.cron_expr, cursor.timezone)
    upcoming = None if fault else _first_after(cursor.cron_expr, cursor.timezone, now)
    return replace(
        cursor,
        tz_version=tz_version,
        next_run_at=upcoming,
        fault=fault or cursor.fault,
        counts_after=cursor.counts_after if upcoming == cursor.next_run_at else now,
    )


@dataclass(frozen=True, slots=True)
class _Start:
    """From when a timetable counts, and what its cursor says about it."""

    after: datetime
    effective_from: datetime
    tz_version: str


def _fresh(provided: ProvidedSchedule, circumstances: Circumstances) -> CursorRow:
    since = provided.effective_from or circumstances.now
    after = max(since, circumstances.returned_at or since)
    row = CursorRow(
        schedule_id=provided.schedule_id,
        tenant_id=circumstances.tenant_id,
        schedule_name=provided.schedule_name,
        saga_name=provided.saga_name,
        provider=circumstances.provider,
        cron_expr=provided.cron_expr,
        timezone=provided.timezone,
        tz_version=circumstances.tz_version,
        enabled=provided.enabled,
        definition_id=definition_id(provided.definition),
        effective_from=since,
        next_run_at=None,
    )
    return _recounted(row, provided, _Start(after, since, circumstances.tz_version))


def _recounted(row: CursorRow, provided: ProvidedSchedule, start: _Start) -> CursorRow:
    fault = _fault(provided)
    fires = provided.enabled and fault is None
    return replace(
        row,
        cron_expr=provided.cron_expr,
        timezone=provided.timezone,
        enabled=provided.enabled,
        tz_version=start.tz_version,
        effective_from=start.effective_from,
        next_run_at=_first_after(provided.cron_expr, provided.timezone, start.after)
        if fires
        else None,
        fault=fault,
        counts_after=start.after if start.after > start.effective_from else None,
    )


def _is_same_timetable(provided: ProvidedSchedule, cursor: CursorRow) -> bool:
    """Whether it stayed; a later `effective_from` tells of a change that was undone."""
    since = provided.effective_from
    return (
        provided.cron_expr == cursor.cron_expr
        and provided.timezone == cursor.timezone
        and provided.enabled == cursor.enabled
        and (since is None or since <= cursor.effective_from)
    )


def _counts_from(
    provided: ProvidedSchedule, cursor: CursorRow, circumstances: Circumstances
) -> _Start:
    said, now = provided.effective_from, circumstances.now
    since = said if said is not None and said > cursor.effective_from else now
    after = max(since, cursor.last_run_at) if cursor.last_run_at else since
    return _Start(after, said or now, circumstances.tz_version)


def _kept(
    changed: CursorRow, provided: ProvidedSchedule, cursor: CursorRow, circumstances: Circumstances
) -> CursorRow:
    """Keep the next occurrence, unless a fault takes it away or has taken it and is gone now."""
    fault = _fault(provided)
    if fault is not None:
        return replace(changed, fault=fault, next_run_at=None)
    if cursor.fault is None or _found_by_others(cursor, changed):
        return changed
    if cursor.next_run_at is None:
        return _recounted(changed, provided, _counts_from(provided, cursor, circumstances))
    return replace(changed, fault=None)


def _found_by_others(cursor: CursorRow, changed: CursorRow) -> bool:
    """Whether the fault is the fire step's, which keeps the next occurrence, and still holds."""
    unreadable = cursor.fault is not None and cursor.fault.startswith(UNREADABLE)
    same = changed.definition_id == cursor.definition_id
    return cursor.next_run_at is not None and not unreadable and same


def _fault(provided: ProvidedSchedule) -> str | None:
    if not isinstance(provided.definition, dict):
        return "the definition is not an object: apply the manifest again"
    return _timetable_fault(provided.cron_expr, provided.timezone)


def _timetable_fault(cron_expr: str, timezone: str) -> str | None:
    try:
        _timetable(cron_expr)
        zone(timezone)
    except CronError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"cron_expr: {error.message}{hint}"
    except UnknownZoneError as error:
        return f"timezone: {error}"
    return None


def _first_after(cron_expr: str, timezone: str, after: datetime) -> datetime | None:
    return next_occurrence(_timetable(cron_expr), zone(timezone), after)


@lru_cache(maxsize=4096)
def _timetable(cron_expr: str) -> Timetable:
    """Parse a timetable; the schedules of a platform share a few of them."""
    return parse(cron_expr)
