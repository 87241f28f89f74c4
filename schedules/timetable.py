"""The timetable of a schedule as it is stored: `cron_expr`, evaluated in `timezone`.

All that fires, checks or shows occurrences of stored schedules gets them from here.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tenantcron.cron.occurrences import next_occurrence
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import IntervalTimetable, SingleTimetable, Timetable
from tenantcron.cron.zones import zone


class ZonedTimetable(NamedTuple):
    """A timetable in its time zone. Occurrences are in UTC."""

    timetable: Timetable
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first occurrence strictly after the moment."""
        return next_occurrence(self.timetable, self.zone, moment)

    def upcoming(self, after: datetime) -> Iterator[datetime]:
        """Yield the occurrences after the moment, one by one."""
        occurrence = self.next_after(after)
        while occurrence is not None:
            yield occurrence
            occurrence = self.next_after(occurrence)

    @property
    def interval(self) -> timedelta | None:
        """The interval, if all its multiples are occurrences."""
        if not isinstance(self.timetable, IntervalTimetable):
            return None
        return self.timetable.interval

    @property
    def ended_at(self) -> datetime | None:
        """The moment after which it has no occurrences, if it has one."""
        return self.timetable.instant if isinstance(self.timetable, SingleTimetable) else None

    def limits(self, now: datetime) -> str:
        """Describe what limits the occurrences, for people; empty if nothing does."""
        if self.ended_at is None or self.ended_at > now:
            return ""
        return f"ended on {self._shown(self.ended_at)}"

    def _shown(self, moment: datetime) -> str:
        return f"{moment.astimezone(self.zone):%a %Y-%m-%d %H:%M %Z}"


def read_timetable(cron_expr: str) -> Timetable:
    """Read a stored timetable without its zone; a CronError explains what is wrong."""
    return parse(cron_expr)


# The schedules of a platform share a few timetables.
@lru_cache(maxsize=4096)
def zoned_timetable(cron_expr: str, timezone: str) -> ZonedTimetable:
    """Read a stored timetable; a CronError or an UnknownZoneError explains what is wrong."""
    return ZonedTimetable(read_timetable(cron_expr), zone(timezone))
