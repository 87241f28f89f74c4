"""Align: compute a cursor from its schedule and its previous state. Values in, values out.

- A new schedule counts from `effective_from`, the moment of the apply: nothing before it fires.
  Occurrences that have come due since then, because no scheduler ran, are handled as missed by the
  fire step.
- A tenant that was deprovisioned and returns counts from its return: past occurrences are not
  fired.
- A timetable is `cron_expr`, `timezone` and `enabled`. While it is unchanged, the cursor keeps its
  next occurrence, its history and its pause; the other columns are copied from the schedule.
- A changed timetable counts from its `effective_from`, if that changed as well, otherwise (a manual
  change) from now; never from before the last fired occurrence. So an edit neither fires past
  occurrences nor fires one again. The same applies to a timetable that was changed and reverted in
  the meantime.
- A schedule that cannot be evaluated has a fault and no next occurrence. The fault is cleared when
  the schedule is fixed. A fault that another step found stays until the schedule changes.
- If a tenant cannot be read, its cursors keep their state, and get a fault that holds them. When it
  can be read again they continue from there, and the catch-up decides about missed occurrences.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from tenantcron.core.names import TenantId
from tenantcron.cron.errors import CronError
from tenantcron.cron.zones import UnknownZoneError
from tenantcron.provider.protocol import ProvidedSchedule
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.schedule_definitions import definition_id

# The fault of all cursors of a tenant that cannot be read; its `sync_fault` has the error.
UNREADABLE = "the tenant's schedules cannot be read"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the schedules of a tenant have in common during a refresh."""

    provider: str
    tenant_id: TenantId
    now: datetime
    tz_version: str
    # New schedules count from this time at the earliest: the tenant was deprovisioned until then.
    returned_at: datetime | None = None


def align(
    provided: ProvidedSchedule, cursor: CursorRow | None, circumstances: Circumstances
) -> CursorRow:
    """Return the cursor for the schedule; equal to the one given if it is in sync."""
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


def quarantine(cursor: CursorRow) -> CursorRow:
    """Return the cursor of a tenant that cannot be read: quarantined where it is."""
    return replace(cursor, fault=UNREADABLE)


def rezone(cursor: CursorRow, now: datetime, tz_version: str) -> CursorRow:
    """Return the cursor with its future occurrences computed with another version of the zones.

    If that makes a difference it counts from now: occurrences that the older zones computed for the
    past are not compared with the newer zones.
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
    """The time from which a timetable counts, and what its cursor stores about it."""

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
    """Whether it is unchanged; a later `effective_from` means a change that was reverted."""
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
    start, now = provided.effective_from, circumstances.now
    since = start if start is not None and start > cursor.effective_from else now
    after = max(since, cursor.last_run_at) if cursor.last_run_at else since
    return _Start(after, start or now, circumstances.tz_version)


def _kept(
    changed: CursorRow, provided: ProvidedSchedule, cursor: CursorRow, circumstances: Circumstances
) -> CursorRow:
    """Keep the next occurrence, unless a fault removes it or has removed it and is gone now."""
    fault = _fault(provided)
    if fault is not None:
        return replace(changed, fault=fault, next_run_at=None)
    if cursor.fault is None or _found_by_others(cursor, changed):
        return changed
    if cursor.next_run_at is None:
        return _recounted(changed, provided, _counts_from(provided, cursor, circumstances))
    return replace(changed, fault=None)


def _found_by_others(cursor: CursorRow, changed: CursorRow) -> bool:
    """Whether the fault is from the fire step, which keeps the next occurrence, and still holds."""
    same = changed.definition_id == cursor.definition_id
    return cursor.next_run_at is not None and cursor.fault != UNREADABLE and same


def _fault(provided: ProvidedSchedule) -> str | None:
    if not isinstance(provided.definition, dict):
        return "the definition is not an object: apply the manifest again"
    return _timetable_fault(provided.cron_expr, provided.timezone) or provided.fault


def _timetable_fault(cron_expr: str, timezone: str) -> str | None:
    try:
        zoned_timetable(cron_expr, timezone)
    except CronError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"cron_expr: {error.message}{hint}"
    except UnknownZoneError as error:
        return f"timezone: {error}"
    return None


def _first_after(cron_expr: str, timezone: str, after: datetime) -> datetime | None:
    return zoned_timetable(cron_expr, timezone).next_after(after)
