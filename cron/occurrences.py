"""The occurrences of a timetable: the next, the previous, and all upcoming ones.

Results are aware datetimes in UTC. None means that there are no more, including at the limits of
datetime (years 1 and 9999).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from tenantcron.cron.placement import next_fixed, next_shown, previous_fixed, previous_shown
from tenantcron.cron.timetable import (
    CronTimetable,
    IntervalTimetable,
    SingleTimetable,
    Timetable,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def next_occurrence(timetable: Timetable, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first occurrence strictly after the moment."""
    try:
        return _next(timetable, zone, _instant(after))
    except OverflowError:
        return None


def previous_occurrence(timetable: Timetable, zone: ZoneInfo, before: datetime) -> datetime | None:
    """Return the last occurrence strictly before the moment."""
    try:
        return _previous(timetable, zone, _instant(before))
    except OverflowError:
        return None


def upcoming(timetable: Timetable, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the occurrences after the moment, one by one."""
    occurrence = next_occurrence(timetable, zone, after)
    while occurrence is not None:
        yield occurrence
        occurrence = next_occurrence(timetable, zone, occurrence)


def _instant(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise ValueError("a datetime without a time zone is not an instant: pass an aware one")
    return moment.astimezone(UTC)


def _next(timetable: Timetable, zone: ZoneInfo, after: datetime) -> datetime | None:
    if isinstance(timetable, CronTimetable):
        if timetable.never:
            return None
        find = next_shown if timetable.follows_clock else next_fixed
        return find(timetable, zone, after)
    if isinstance(timetable, IntervalTimetable):
        return _multiple(timetable.interval, (after - _EPOCH) // timetable.interval + 1)
    if isinstance(timetable, SingleTimetable):
        return timetable.instant if timetable.instant > after else None
    assert_never(timetable)


def _previous(timetable: Timetable, zone: ZoneInfo, before: datetime) -> datetime | None:
    if isinstance(timetable, CronTimetable):
        if timetable.never:
            return None
        find = previous_shown if timetable.follows_clock else previous_fixed
        return find(timetable, zone, before)
    if isinstance(timetable, IntervalTimetable):
        # The floor of the negative is the ceiling: the first multiple not before the moment.
        return _multiple(timetable.interval, -((_EPOCH - before) // timetable.interval) - 1)
    if isinstance(timetable, SingleTimetable):
        return timetable.instant if timetable.instant < before else None
    assert_never(timetable)


def _multiple(interval: timedelta, count: int) -> datetime:
    return _EPOCH + interval * count
