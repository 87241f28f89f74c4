"""The next clock changes of a time zone, and the occurrences of a timetable around them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from tenantcron.schedules.timetable import ZonedTimetable

_AHEAD: Final = 400
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_AROUND: Final = timedelta(hours=3)
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A clock change: local time before and after, and the occurrences around it."""

    before: datetime
    after: datetime
    occurrences: tuple[datetime, ...]

    @property
    def words(self) -> str:
        """A description of the change."""
        old, new = self.before.replace(tzinfo=None), self.after.replace(tzinfo=None)
        direction = "forward" if new > old else "back"
        effect = "is skipped" if new > old else "occurs twice"
        low, high = sorted((old, new))
        return f"the clock goes {direction}: {low:%H:%M} to {high:%H:%M} {effect}"


def clock_changes(timetable: ZonedTimetable, now: datetime) -> list[ClockChange]:
    """Return the clock changes of the next 13 months."""
    found, place = [], timetable.zone
    for days in range(_AHEAD):
        begin = now + _DAY * days
        if _offset(begin, place) != _offset(begin + _DAY, place):
            found.append(_change(timetable, _instant(begin, begin + _DAY, place)))
    return found


def _change(timetable: ZonedTimetable, instant: datetime) -> ClockChange:
    place = timetable.zone
    before = (instant - _SECOND).astimezone(place) + _SECOND
    near = takewhile(lambda time: time <= instant + _AROUND, timetable.upcoming(instant - _AROUND))
    around = tuple(time.astimezone(place) for time in islice(near, _SHOWN))
    return ClockChange(before, instant.astimezone(place), around)


def _instant(before: datetime, after: datetime, place: ZoneInfo) -> datetime:
    """Find the first second of the new offset by bisection."""
    old = _offset(before, place)
    while after - before > _SECOND:
        middle = before + (after - before) / 2
        before, after = (middle, after) if _offset(middle, place) == old else (before, middle)
    return after.replace(microsecond=0)


def _offset(moment: datetime, place: ZoneInfo) -> timedelta | None:
    return moment.astimezone(place).utcoffset()
