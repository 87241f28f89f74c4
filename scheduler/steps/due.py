"""Compute the due occurrences of a cursor and plan their executions, as values.

An occurrence is on time until `LATE` after its nominal time. Later occurrences were missed, because
no scheduler ran or the schedulers were too slow, and the schedule's catch-up decides:

- `once`: the latest occurrence starts, and its row covers the others;
- `all`: each occurrence starts;
- `none`, and always for occurrences older than the catch-up window: none of them starts, and one
  MISSED row covers them.

The cursor of a paused schedule keeps moving, and one SKIPPED row covers the occurrences of the
pause. So every occurrence has its own row, or lies in the cover of exactly one row: from
`covers_from` to `scheduled_for`.

Occurrences are computed forwards from the cursor, never backwards from now. Two kinds are skipped
without a row:

- occurrences before the retained history, because their rows would be dropped at once;
- occurrences that were fired before, or that precede the apply, if the cursor was moved back
  manually. No occurrence may be covered by two rows.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from tenantcron.actor.model import CATCH_UP, CRON_SCHEDULER
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.settings import CatchUp, Overlap, ScheduleSettings
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.firing import DueCursor

LATE = timedelta(seconds=60)
_MOMENT = timedelta(microseconds=1)


class PlannedExecution(NamedTuple):
    """A row to insert: an occurrence, and the earlier occurrences that it covers."""

    scheduled_for: datetime
    state: State
    reason_code: ReasonCode | None
    detail: str | None
    source: str
    not_before: datetime
    start_deadline: datetime | None
    covers_from: datetime | None = None
    missed_count: int = 0


class DueOccurrences(NamedTuple):
    """The planned executions of a cursor, and its new position."""

    planned: tuple[PlannedExecution, ...]
    last_run_at: datetime
    next_run_at: datetime | None
    # How many occurrences were computed: the cost.
    steps: int


def due(
    cursor: DueCursor, settings: ScheduleSettings, now: datetime, oldest: datetime
) -> DueOccurrences:
    """Plan the executions that are due now and not older than the retained history.

    The cursor's next occurrence must not be in the future.
    """
    following: datetime | None = cursor.next_run_at
    if cursor.next_run_at < oldest or _was_fired(cursor):
        before = oldest - _MOMENT
        passed = max(before, cursor.last_run_at or before, cursor.counts_after or before)
        following = _following(cursor.cron_expr, cursor.timezone, passed)
    times = []
    while following is not None and following <= now:
        times.append(following)
        following = _following(cursor.cron_expr, cursor.timezone, following)
    planned = tuple(_planned(cursor, settings, times, now))
    last = times[-1] if times else max(cursor.next_run_at, cursor.last_run_at or cursor.next_run_at)
    return DueOccurrences(planned, last, following, len(times))


def _was_fired(cursor: DueCursor) -> bool:
    """Whether the cursor was moved back manually."""
    return cursor.last_run_at is not None and cursor.next_run_at <= cursor.last_run_at


# Often thousands of schedules with the same few timetables are due at the same time.
@lru_cache(maxsize=4096)
def _following(cron_expr: str, timezone: str, after: datetime) -> datetime | None:
    return zoned_timetable(cron_expr, timezone).next_after(after)


def spread_offset(schedule_id: UUID, spread: timedelta) -> timedelta:
    """Return the constant offset of a schedule within its spread."""
    if not spread:
        return spread
    return timedelta(seconds=schedule_id.int % int(spread.total_seconds()))


def _planned(
    cursor: DueCursor, settings: ScheduleSettings, times: Sequence[datetime], now: datetime
) -> Iterator[PlannedExecution]:
    paused, times = _split_pause(cursor, times)
    if paused:
        yield _unstarted(paused, State.SKIPPED, ReasonCode.PAUSED, cursor.paused_reason)
    on_time = times[-1:] if times and now - times[-1] <= LATE else []
    late = times[: len(times) - len(on_time)]
    given_up, caught_up = _split_late(settings, late, now)
    if given_up:
        yield _unstarted(given_up, State.MISSED, ReasonCode.NO_SCHEDULER, _why_missed(settings))
    if settings.catch_up is CatchUp.ALL:
        for time in (*caught_up, *on_time):
            yield _starting(cursor, settings, [time], now)
    elif caught_up or on_time:
        yield _starting(cursor, settings, [*caught_up, *on_time], now)


def _split_pause(
    cursor: DueCursor, times: Sequence[datetime]
) -> tuple[Sequence[datetime], Sequence[datetime]]:
    pause = cursor.pause
    if pause is None:
        return [], times
    paused = [time for time in times if pause.is_in_force(time)]
    return paused, times[len(paused) :]


def _split_late(
    settings: ScheduleSettings, late: Sequence[datetime], now: datetime
) -> tuple[Sequence[datetime], Sequence[datetime]]:
    if settings.catch_up is CatchUp.NONE:
        return late, []
    oldest = now - settings.catch_up_window
    return [time for time in late if time < oldest], [time for time in late if time >= oldest]


def _why_missed(settings: ScheduleSettings) -> str:
    if settings.catch_up is CatchUp.NONE:
        return "catch_up is none"
    return "longer ago than catch_up_window"


def _unstarted(
    times: Sequence[datetime], state: State, reason_code: ReasonCode, detail: str | None
) -> PlannedExecution:
    """Return the row that covers occurrences that do not start."""
    latest = times[-1]
    return PlannedExecution(
        latest, state, reason_code, detail, CRON_SCHEDULER, latest, None, *_cover(times)
    )


def _starting(
    cursor: DueCursor, settings: ScheduleSettings, times: Sequence[datetime], now: datetime
) -> PlannedExecution:
    """Return the row of the latest occurrence, which starts and covers the others."""
    latest = times[-1]
    not_before = latest + spread_offset(cursor.schedule_id, settings.spread)
    is_late = now - latest > LATE
    return PlannedExecution(
        latest,
        State.PENDING,
        None,
        None,
        CATCH_UP if is_late else CRON_SCHEDULER,
        not_before,
        _start_deadline(settings, not_before, now, is_late=is_late, is_alone=len(times) == 1),
        *_cover(times),
    )


def _start_deadline(
    settings: ScheduleSettings,
    not_before: datetime,
    now: datetime,
    *,
    is_late: bool,
    is_alone: bool,
) -> datetime | None:
    """Return until when the execution may wait for a slot; None means forever."""
    caught_up = max(now, not_before) + settings.catch_up_window
    if is_late:
        return caught_up
    # An execution that waits for the previous one would never start if it had to start at once.
    if settings.overlap in (Overlap.QUEUE, Overlap.CANCEL_RUNNING) and not settings.start_within:
        return None
    on_time = not_before + settings.start_within
    # An execution that covers missed occurrences may wait as long as they may.
    return on_time if is_alone else max(on_time, caught_up)


def _cover(times: Sequence[datetime]) -> tuple[datetime | None, int]:
    return (times[0], len(times) - 1) if len(times) > 1 else (None, 0)
