"""Search for matching wall-clock values, independent of time zones.

A wall-clock value is a naive datetime, or a local one whose zone is ignored. Matching values are
whole minutes, and naive. They are found with bit masks: `mask & -mask` keeps the lowest bit, and
`bit_length` gives the highest. The search ends at the limits of datetime, years 1 to 9999.
"""

from datetime import MAXYEAR, MINYEAR, datetime

from tenantcron.cron.months import month_length
from tenantcron.cron.timetable import CronTimetable


def wall_after(cron: CronTimetable, wall: datetime) -> datetime | None:
    """Return the first match after the value."""
    return _first(cron, wall, wall.hour * 60 + wall.minute + 1)


def wall_from(cron: CronTimetable, wall: datetime) -> datetime | None:
    """Return the first match at the value or after it."""
    return _first(cron, wall, _minutes_begun(wall))


def wall_before(cron: CronTimetable, wall: datetime) -> datetime | None:
    """Return the last match before the value."""
    return _last(cron, wall, _minutes_begun(wall))


def _minutes_begun(wall: datetime) -> int:
    """Count the minutes of the day that begin before the value."""
    return wall.hour * 60 + wall.minute + (wall.second > 0 or wall.microsecond > 0)


def _first(cron: CronTimetable, wall: datetime, minute: int) -> datetime | None:
    """Return the first match from this minute of the value's day on."""
    year, month, day = wall.year, wall.month, wall.day
    first = (wall.isoweekday() - day + 1) % 7
    length = month_length(year, month)
    days = cron.day_masks[(length - 28) * 7 + first] >> day if month in cron.months else 0
    times = cron.times >> minute
    if days & 1 and times:
        minute += (times & -times).bit_length() - 1
        return datetime(year, month, day, minute // 60, minute % 60)
    days &= -2
    if days:
        day += (days & -days).bit_length() - 1
        return datetime(year, month, day, cron.hours[0], cron.minutes[0])
    return _first_of_later_months(cron, year, month, (first + length) % 7)


def _first_of_later_months(
    cron: CronTimetable, year: int, month: int, first: int
) -> datetime | None:
    """Return the first match after the month; `first` is the weekday on which the next begins."""
    while True:
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if year > MAXYEAR:
            return None
        length = month_length(year, month)
        days = cron.day_masks[(length - 28) * 7 + first] if month in cron.months else 0
        if days:
            day = (days & -days).bit_length() - 1
            return datetime(year, month, day, cron.hours[0], cron.minutes[0])
        first = (first + length) % 7


def _last(cron: CronTimetable, wall: datetime, minutes: int) -> datetime | None:
    """Return the last match before this minute of the value's day."""
    year, month, day = wall.year, wall.month, wall.day
    first = (wall.isoweekday() - day + 1) % 7
    length = month_length(year, month)
    days = cron.day_masks[(length - 28) * 7 + first] if month in cron.months else 0
    times = cron.times & ((1 << minutes) - 1)
    if days >> day & 1 and times:
        minute = times.bit_length() - 1
        return datetime(year, month, day, minute // 60, minute % 60)
    days &= (1 << day) - 1
    if days:
        day = days.bit_length() - 1
        return datetime(year, month, day, cron.hours[-1], cron.minutes[-1])
    return _last_of_earlier_months(cron, year, month, first)


def _last_of_earlier_months(
    cron: CronTimetable, year: int, month: int, first: int
) -> datetime | None:
    """Return the last match before the month, which itself begins on the weekday `first`."""
    while True:
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if year < MINYEAR:
            return None
        length = month_length(year, month)
        first = (first - length) % 7
        days = cron.day_masks[(length - 28) * 7 + first] if month in cron.months else 0
        if days:
            day = days.bit_length() - 1
            return datetime(year, month, day, cron.hours[-1], cron.minutes[-1])
