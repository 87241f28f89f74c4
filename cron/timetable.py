"""The three kinds of timetable, as immutable values that are ready to be evaluated."""

from datetime import datetime, timedelta
from typing import NamedTuple


class CronTimetable(NamedTuple):
    """A cron expression with its fields expanded.

    `times` has bit m set if minute m of the day matches. `day_masks` has one mask per kind of
    month (see `months`), with bit d set if day d matches in a month of that kind.
    """

    expression: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    times: int
    day_masks: tuple[int, ...]
    # The hour field begins with `*`: the timetable follows the clock as it shows.
    follows_clock: bool
    restricts_both_days: bool
    # No day of any year matches. Evaluation asks this first, so that no search is in vain.
    never: bool


class IntervalTimetable(NamedTuple):
    """`@every 45m`: the multiples of the interval since 1970, the same for whoever counts them."""

    expression: str
    interval: timedelta


class SingleTimetable(NamedTuple):
    """`@at 2026-12-01T09:00:00Z`: one instant, in UTC."""

    expression: str
    instant: datetime


Timetable = CronTimetable | IntervalTimetable | SingleTimetable
