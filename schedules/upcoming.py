"""The next executions of a schedule, as plans, lists and pages show them."""

from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

from tenantcron.schedules.pause import Pause, in_force
from tenantcron.schedules.timetable import zoned_timetable

NEXT_EXECUTIONS = 3


def next_executions(
    cron_expr: str,
    timezone: str,
    now: datetime,
    pause: Pause | None,
    count: int = NEXT_EXECUTIONS,
) -> tuple[datetime, ...]:
    """Return the next occurrences that start, in local time; none during a pause without an end.

    A timetable that cannot be read raises.
    """
    held = in_force(pause, now)
    if held is not None and held.until is None:
        return ()
    # The occurrence at the end of a pause fires, and `upcoming` is strictly after.
    after = now if held is None or held.until is None else held.until - timedelta.resolution
    return occurrences_after(cron_expr, timezone, after, count)


# The schedules of a fleet share a few timetables.
@lru_cache(maxsize=4096)
def occurrences_after(
    cron_expr: str, timezone: str, after: datetime, count: int
) -> tuple[datetime, ...]:
    """Return the next occurrences, in local time."""
    timetable = zoned_timetable(cron_expr, timezone)
    found = islice(timetable.upcoming(after), count)
    return tuple(occurrence.astimezone(timetable.zone) for occurrence in found)
