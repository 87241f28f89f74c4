"""What a cursor owes: the executions of its due occurrences, as values.

An occurrence is on time until `LATE` after it. What is later was missed, because nothing ran or
because everything was too slow, and the schedule's catch-up decides:

- `once`: the latest one starts and stands for the others;
- `all`: each one starts;
- `none`, and in any case what is older than the catch-up window: none starts, and one MISSED row
  stands for them.

A paused schedule goes on through its timetable; one SKIPPED row stands for what came due. So every
occurrence has a row of its own, or lies in the cover of exactly one row: from `covers_from` to
`scheduled_for`. Occurrences are looked for forwards from the cursor, never backwards from now; what
lies before the kept history is passed over, because its rows would be dropped at once. So is what
was fired already, should a hand have set the cursor back: no second row may stand for it, and what
its timetable has from before the apply is not fired either.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from tenantcron.actor.model import CATCH_UP, CRON_SCHEDULER
from tenantcron.schedules.settings import CatchUp, Overlap, ScheduleSettings
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.firing import DueCursor

LATE = timedelta(seconds=60)
_MOMENT = timedelta(microseconds=1)


class Planned(NamedTuple):
    """One row to be: an occurrence, and the earlier ones that it stands for."""

    scheduled_for: datetime
    state: State
    reason: str | None
    source: str
    not_before: datetime
    start_deadline: datetime | None
    covers_from: datetime | None = None
    missed_count: int = 0


class Due(NamedTuple):
    """All that a cursor owes now, and where it moves."""

    planned: tuple[Planned, ...]
    last_run_at: datetime
    next_run_at: datetime | None
    # How many occurrences were looked at: what it cost.
    steps: int


def due(cursor: DueCursor, settings: ScheduleSettings, now: datetime, oldest: datetime) -> Due:
    """Return what the cursor owes since the oldest moment that history is kept for.

    The cursor's next occurrence must not lie ahead of now.
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
    return Due(planned, last, following, len(times))


def _was_fired(cursor: DueCursor) -> bool:
    """Whether somebody has set it back."""
    return cursor.last_run_at is not None and cursor.next_run_at <= cursor.last_run_at


# At two in the morning thousands of schedules with a few timetables are due.
@lru_cache(maxsize=4096)
def _following(cron_expr: str, timezone: str, after: datetime) -> datetime | None:
    return zoned_timetable(cron_expr, timezone).next_after(after)


def spread_offset(schedule_id: UUID, spread: timedelta) -> timedelta:
    """Return the schedule's own place within the spread; always the same one."""
    if not spread:
        return spread
    return timedelta(seconds=schedule_id.int % int(spread.total_seconds()))


def _planned(
    cursor: DueCursor, settings: ScheduleSettings, times: Sequence[datetime], now: datetime
) -> Iterator[Planned]:
    paused, times = _split_pause(cursor, times)
    if paused:
        yield _standing_for(paused, State.SKIPPED, _why_paused(cursor))
    on_time = times[-1:] if times and now - times[-1] <= LATE else []
    late = times[: len(times) - len(on_time)]
    given_up, caught_up = _split_late(settings, late, now)
    if given_up:
        yield _standing_for(given_up, State.MISSED, _why_missed(settings))
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
    return [one for one in late if one < oldest], [one for one in late if one >= oldest]


def _why_paused(cursor: DueCursor) -> str:
    return f"paused: {cursor.paused_reason}" if cursor.paused_reason else "paused"


def _why_missed(settings: ScheduleSettings) -> str:
    if settings.catch_up is CatchUp.NONE:
        return "missed while no scheduler ran, and catch_up is none"
    return "missed while no scheduler ran, for longer than catch_up_window"


def _standing_for(times: Sequence[datetime], state: State, reason: str) -> Planned:
    """Return the one row of occurrences that do not start."""
    latest = times[-1]
    return Planned(latest, state, reason, CRON_SCHEDULER, latest, None, *_cover(times))


def _starting(
    cursor: DueCursor, settings: ScheduleSettings, times: Sequence[datetime], now: datetime
) -> Planned:
    """Return the row of the latest of these, which starts."""
    latest = times[-1]
    not_before = latest + spread_offset(cursor.schedule_id, settings.spread)
    is_late = now - latest > LATE
    return Planned(
        latest,
        State.PENDING,
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
    """Return until when it may wait for a slot; None is for as long as it takes."""
    caught_up = max(now, not_before) + settings.catch_up_window
    if is_late:
        return caught_up
    # Who waits for the execution before it would never start if it had to start at once.
    if settings.overlap in (Overlap.QUEUE, Overlap.CANCEL_RUNNING) and not settings.start_within:
        return None
    on_time = not_before + settings.start_within
    # Who stands for missed ones may wait as long as they.
    return on_time if is_alone else max(on_time, caught_up)


def _cover(times: Sequence[datetime]) -> tuple[datetime | None, int]:
    return (times[0], len(times) - 1) if len(times) > 1 else (None, 0)
