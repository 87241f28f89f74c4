"""Check a timetable with the platform's rules."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from tenantcron.core.durations import format_duration
from tenantcron.cron.analysis import (
    fires_rarely,
    gap_below,
    never_fires,
    restricts_both_day_fields,
)
from tenantcron.cron.timetable import Timetable
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.schedules.schedule import Timing
from tenantcron.schedules.timetable import zoned_timetable

# The size of the column in tenant_schedule.
MAX_EXPRESSION = 64


class TimetableRules(NamedTuple):
    """The rules for timetables: the platform's minimum interval, and the current time."""

    floor: timedelta
    now: datetime

    def check(self, timetable: Timetable, at: Pointer) -> Iterator[Fault]:
        """Yield the faults of a timetable, errors and warnings."""
        if never_fires(timetable):
            yield Fault(
                "TC202", f"`{timetable.expression}` never fires", at, "correct the day or the month"
            )
            return
        yield from self._too_frequent(timetable, at)
        yield from self._suspicious(timetable, at)

    def check_stored(self, timing: Timing, at: Pointer) -> Iterator[Fault]:
        """Yield the faults of a timetable in its stored form and its time zone."""
        if len(timing.cron) > MAX_EXPRESSION:
            message = f"the expression has {len(timing.cron)} characters"
            yield Fault("TC209", f"{message}, {MAX_EXPRESSION} are allowed", at)
        zoned = zoned_timetable(timing.cron, timing.timezone)
        if zoned.ended_at is not None and zoned.next_after(self.now) is None:
            has = "has passed" if zoned.ended_at <= self.now else "comes before any occurrence"
            yield Fault("TC208", f"{zoned.ended_at:%Y-%m-%d %H:%M} UTC {has}", at)

    def _too_frequent(self, timetable: Timetable, at: Pointer) -> Iterator[Fault]:
        gap = gap_below(timetable, self.floor)
        if gap is not None:
            floor = format_duration(self.floor)
            message = (
                f"the shortest gap of `{timetable.expression}` is {format_duration(gap)}; "
                f"the platform requires at least {floor}"
            )
            yield Fault("TC301", message, at, f"`every: {floor}` is the shortest interval allowed")

    def _suspicious(self, timetable: Timetable, at: Pointer) -> Iterator[Fault]:
        expression = timetable.expression
        if fires_rarely(timetable):
            message = f"`{expression}` fires on one day a year or less often"
            yield Fault("TC203", message, at, "if that is correct, use a preset of the policy")
        if restricts_both_day_fields(timetable):
            message = f"`{expression}` fires when the day of month or the weekday matches"
            yield Fault("TC204", message, at, "restrict only one of the two if both must match")
