"""The shortest wall-clock gap of a cron timetable, computed from its fields.

Two consecutive occurrences are in the same hour, in two consecutive matching hours of a day, or on
two consecutive matching days: then they are the last time of one day and the first of the other. So
the gap is the minimum of three values, and only the third needs the calendar.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise

from tenantcron.cron.months import kind_of, month_length, possible_kinds
from tenantcron.cron.timetable import CronTimetable

_MINUTES_OF_DAY = 24 * 60
_DAYS_OF_LEAP_YEAR = 366

# Every kind of year, each followed by every kind of year that can follow it.
_ALL_KINDS_OF_YEAR = range(2001, 2029)
# The full cycle of the Gregorian calendar: it repeats after 400 years, weekdays included.
_CALENDAR_CYCLE = range(2001, 2401)


def shortest_cron_gap(cron: CronTimetable) -> timedelta:
    """Return the shortest gap of a timetable that fires at least once."""
    within = _gap_within_a_day(cron)
    overnight = _MINUTES_OF_DAY - _first_to_last_time(cron)
    if within is not None and within <= overnight:
        return timedelta(minutes=within)
    across = (_fewest_days_apart(cron) - 1) * _MINUTES_OF_DAY + overnight
    return timedelta(minutes=across if within is None else min(within, across))


def cron_gap_below(cron: CronTimetable, limit: timedelta) -> timedelta | None:
    """Return the shortest gap if it is below the limit; use the calendar only if needed."""
    overnight = _MINUTES_OF_DAY - _first_to_last_time(cron)
    within = _gap_within_a_day(cron)
    least = overnight if within is None else min(within, overnight)
    if least * 60 >= limit.total_seconds():
        return None
    gap = shortest_cron_gap(cron)
    return gap if gap < limit else None


def _first_to_last_time(cron: CronTimetable) -> int:
    """Return the minutes from the first time of a day to the last."""
    return (cron.hours[-1] - cron.hours[0]) * 60 + cron.minutes[-1] - cron.minutes[0]


def _gap_within_a_day(cron: CronTimetable) -> int | None:
    gaps = [later - earlier for earlier, later in pairwise(cron.minutes)]
    over_the_hour = cron.minutes[0] - cron.minutes[-1]
    gaps += [(later - earlier) * 60 + over_the_hour for earlier, later in pairwise(cron.hours)]
    return min(gaps, default=None)


def _fewest_days_apart(cron: CronTimetable) -> int:
    """Return the smallest number of days from a matching day to the next."""
    within = _fewest_days_within_a_month(cron)
    if within == 1:
        return 1
    days = _fewest_days_across_months(cron, _ALL_KINDS_OF_YEAR)
    if days > _DAYS_OF_LEAP_YEAR:
        # Such days are several years apart, and around a century year without a leap day the years
        # follow in an order that no other 28 years have.
        days = _fewest_days_across_months(cron, _CALENDAR_CYCLE)
    return min(within, days)


def _fewest_days_within_a_month(cron: CronTimetable) -> int:
    kinds = {kind for month in cron.months for kind in possible_kinds(month)}
    return min(_closest_bits(mask) for mask in {cron.day_masks[kind] for kind in kinds})


def _closest_bits(mask: int) -> int:
    """Return the smallest distance of two set bits, or more than any gap if there are no two."""
    if mask.bit_count() < 2:
        return len(_CALENDAR_CYCLE) * _DAYS_OF_LEAP_YEAR
    return next(distance for distance in range(1, 32) if mask & mask >> distance)


def _fewest_days_across_months(cron: CronTimetable, years: range) -> int:
    """Return the fewest days from the last match of a month to the first of a later month."""
    spans = list(_matching_spans(cron, years))
    days_of_all = date(years.stop, 1, 1).toordinal() - date(years.start, 1, 1).toordinal()
    # The years repeat, so the first match also follows the last one.
    spans.append((spans[0][0] + days_of_all, 0))
    return min(later[0] - earlier[1] for earlier, later in pairwise(spans))


def _matching_spans(cron: CronTimetable, years: range) -> Iterator[tuple[int, int]]:
    """Yield the first and the last matching day of each month that has one, as ordinals."""
    masks = cron.day_masks
    for begin, kind in _months(years, cron.months):
        mask = masks[kind]
        if mask:
            yield begin + (mask & -mask).bit_length() - 2, begin + mask.bit_length() - 2


@lru_cache(maxsize=64)
def _months(years: range, months: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the first day, as an ordinal, and the kind of each of these months of the years."""
    begins = ((date(y, m, 1).toordinal(), month_length(y, m)) for y in years for m in months)
    # Ordinals begin on a Monday with 1, so the remainder is the weekday as cron counts.
    return tuple((begin, kind_of(length, begin % 7)) for begin, length in begins)
