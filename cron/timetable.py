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
    # The hour field begins with `*`: it fires whenever the clock shows a matching value.
    follows_clock: bool
    restricts_both_days: bool
    # No day of any year matches. Evaluation checks this first and skips the search.
    never: bool


class IntervalTimetable(NamedTuple):
    """`@every 45m`: the multiples of the interval since 1970, the same on every replica."""

    expression: str
    interval: timedelta


class SingleTimetable(NamedTuple):
    """`@at 2026-12-01T09:00:00Z`: one instant, in UTC."""

    expression: str
    instant: datetime


Timetable = CronTimetable | IntervalTimetable | SingleTimetable
