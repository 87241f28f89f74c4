"""The timetable of a schedule as it is stored: `cron_expr`, evaluated in `timezone`.

All that fires, checks or shows occurrences of stored schedules gets them from here.

`cron_expr` is an expression, and after it the bounds of the schedule, if it has any, as an interval
of ISO 8601 in local time: `0 2 * * * 2026-12-01/2027-03-01`. Two dots are an open side. The start
is included, the end is not. So a change of the bounds is a change of the timetable, and a release
that does not know them quarantines the schedule instead of firing it outside of them.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tenantcron.cron.errors import CronError
from tenantcron.cron.occurrences import next_occurrence
from tenantcron.cron.parse import parse
from tenantcron.cron.placement import fixed_instant
from tenantcron.cron.timetable import IntervalTimetable, SingleTimetable, Timetable
from tenantcron.cron.zones import zone

_OPEN = ".."
_BOUND = "[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
_BOUNDS = re.compile(rf"(.*) ({_BOUND}|\.\.)/({_BOUND}|\.\.)")


class ZonedTimetable(NamedTuple):
    """A timetable in its time zone, within its bounds. Occurrences are in UTC."""

    timetable: Timetable
    zone: ZoneInfo
    starts: datetime | None = None
    ends: datetime | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first occurrence strictly after the moment."""
        if self.starts is not None and moment < self.starts:
            moment = self.starts - timedelta.resolution
        occurrence = next_occurrence(self.timetable, self.zone, moment)
        if self.ends is not None and occurrence is not None and occurrence >= self.ends:
            return None
        return occurrence

    def upcoming(self, after: datetime) -> Iterator[datetime]:
        """Yield the occurrences after the moment, one by one."""
        occurrence = self.next_after(after)
        while occurrence is not None:
            yield occurrence
            occurrence = self.next_after(occurrence)

    @property
    def interval(self) -> timedelta | None:
        """The interval, if all its multiples are occurrences."""
        if not isinstance(self.timetable, IntervalTimetable) or self.starts or self.ends:
            return None
        return self.timetable.interval

    @property
    def ended_at(self) -> datetime | None:
        """The moment after which it has no occurrences, if it has one."""
        single = self.timetable.instant if isinstance(self.timetable, SingleTimetable) else None
        return min(filter(None, (single, self.ends)), default=None)

    def limits(self, now: datetime) -> str:
        """Describe what limits the occurrences, for people; empty if nothing does."""
        if self.ended_at is not None and self.ended_at <= now:
            return f"ended on {self._shown(self.ended_at)}"
        starts = self.starts is not None and self.starts > now
        ahead = (("starts", self.starts if starts else None), ("ends", self.ends))
        return " and ".join(f"{verb} on {self._shown(time)}" for verb, time in ahead if time)

    def _shown(self, moment: datetime) -> str:
        return f"{moment.astimezone(self.zone):%a %Y-%m-%d %H:%M %Z}"


def read_timetable(cron_expr: str) -> Timetable:
    """Read a stored timetable without zone and bounds; a CronError explains what is wrong."""
    return parse(split_bounds(cron_expr).expression)


# The schedules of a platform share a few timetables.
@lru_cache(maxsize=4096)
def zoned_timetable(cron_expr: str, timezone: str) -> ZonedTimetable:
    """Read a stored timetable; a CronError or an UnknownZoneError explains what is wrong."""
    stored, place = split_bounds(cron_expr), zone(timezone)
    bounds = (_instant(bound, place) for bound in (stored.starts, stored.ends))
    return ZonedTimetable(read_timetable(cron_expr), place, *bounds)


def with_bounds(expression: str, starts: str | None, ends: str | None) -> str:
    """Return an expression with the bounds of a schedule, as it is stored."""
    if starts is None and ends is None:
        return expression
    return f"{expression} {starts or _OPEN}/{ends or _OPEN}"


def local_time(text: str) -> str:
    """Return the canonical form of a date, or a date and time; a ValueError if it is neither."""
    time = datetime.fromisoformat(text)
    # Near the limits of datetime a local time has no instant.
    if not 1970 <= time.year < 9999:
        raise ValueError(text)
    shown = time.isoformat(timespec="seconds" if time.second else "minutes")
    return shown.removesuffix("T00:00")


class StoredTimetable(NamedTuple):
    """The parts of a stored timetable; the bounds are local times."""

    expression: str
    starts: str | None
    ends: str | None


def split_bounds(cron_expr: str) -> StoredTimetable:
    """Split a stored timetable into its expression and its bounds; it need not be valid."""
    found = _BOUNDS.fullmatch(cron_expr)
    if found is None:
        return StoredTimetable(cron_expr, None, None)
    bounds = (None if bound == _OPEN else bound for bound in found.groups()[1:])
    return StoredTimetable(found[1], *bounds)


def _instant(bound: str | None, place: ZoneInfo) -> datetime | None:
    """Return when a local time is; one that the clock skips is the end of the gap."""
    if bound is None:
        return None
    try:
        return fixed_instant(place, datetime.fromisoformat(bound))
    except (ValueError, OverflowError):
        raise CronError(f"{bound} is not a date", "write for example 2026-12-01") from None
