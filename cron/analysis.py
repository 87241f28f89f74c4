"""Properties of a timetable, computed exactly and never from samples."""

from collections import Counter
from datetime import date, timedelta
from functools import cache

from tenantcron.cron.gaps import cron_gap_below, shortest_cron_gap
from tenantcron.cron.months import kind_of, month_length, possible_kinds
from tenantcron.cron.timetable import CronTimetable, IntervalTimetable, Timetable

# The Gregorian calendar repeats after 400 years, weekdays included.
_CYCLE = range(2001, 2401)
_YEAR = timedelta(days=365)


def never_fires(timetable: Timetable) -> bool:
    """Whether there is no occurrence in any year, such as on 31 February."""
    return isinstance(timetable, CronTimetable) and timetable.never


def fires_rarely(timetable: Timetable) -> bool:
    """Whether a timetable has one matching day a year or fewer, on average."""
    if isinstance(timetable, IntervalTimetable):
        return timetable.interval >= _YEAR
    if not isinstance(timetable, CronTimetable) or _fires_twice_every_year(timetable):
        return False
    days = sum(
        years * timetable.day_masks[kind].bit_count()
        for month in timetable.months
        for kind, years in _kinds_in_cycle(month).items()
    )
    return days <= len(_CYCLE)


def shortest_gap(timetable: Timetable) -> timedelta | None:
    """Return the shortest wall-clock time between two occurrences; None if there are no two."""
    if isinstance(timetable, CronTimetable):
        return None if timetable.never else shortest_cron_gap(timetable)
    if isinstance(timetable, IntervalTimetable):
        return timetable.interval
    return None


def gap_below(timetable: Timetable, limit: timedelta) -> timedelta | None:
    """Return the shortest gap if it is below the limit; cheaper than `shortest_gap`."""
    if isinstance(timetable, CronTimetable):
        return None if timetable.never else cron_gap_below(timetable, limit)
    gap = shortest_gap(timetable)
    return gap if gap is not None and gap < limit else None


def restricts_both_day_fields(timetable: Timetable) -> bool:
    """Whether both day fields are restricted, so that a day needs to match only one of them."""
    return isinstance(timetable, CronTimetable) and timetable.restricts_both_days


def _fires_twice_every_year(cron: CronTimetable) -> bool:
    """Whether two days match in every year; nearly all timetables need one or two months."""
    days = 0
    for month in cron.months:
        days += min(cron.day_masks[kind].bit_count() for kind in possible_kinds(month))
        if days > 1:
            return True
    return False


@cache
def _kinds_in_cycle(month: int) -> Counter[int]:
    """Count how often the month is of each kind in 400 years."""
    return Counter(
        kind_of(month_length(year, month), date(year, month, 1).toordinal() % 7) for year in _CYCLE
    )
