"""Times in arguments and output of the command line."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.errors import UsageError

# A time that may be relative: it takes the current time and returns the absolute one.
Moment = Callable[[datetime], datetime]
EXPECTED = "a time such as 2026-12-01T09:00:00Z, 18:00, 1h or +2h"

_CLOCK = re.compile("[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")


class Direction(Enum):
    """Where a duration or a time of day without a sign points to."""

    PAST = -1
    FUTURE = 1


def moment(text: str, zone: ZoneInfo, direction: Direction) -> Moment:
    """Parse a time: ISO 8601, a time of day, or a duration from now.

    A time without an offset is in `zone`. `+2h` is ahead and `-2h` is ago, whatever the direction.
    """
    try:
        if _CLOCK.fullmatch(text):
            return _at_clock(time.fromisoformat(text.zfill(5)), zone, direction)
        if text[:1] in ("+", "-"):
            return _in(parse_duration(text[1:]) * (-1 if text[0] == "-" else 1))
        if text[-1:] in ("d", "h", "m", "s"):
            return _in(parse_duration(text) * direction.value)
        instant = datetime.fromisoformat(text)
        absolute = (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, DurationError) as error:
        raise UsageError(f"{text!r} is not {EXPECTED}") from error
    return lambda _: absolute


def _in(span: timedelta) -> Moment:
    def at(now: datetime) -> datetime:
        try:
            return now + span
        except OverflowError:
            raise UsageError("the time is too far away: use a shorter duration") from None

    return at


def _at_clock(clock: time, zone: ZoneInfo, direction: Direction) -> Moment:
    """Return the nearest such time of day in the direction."""

    def at(now: datetime) -> datetime:
        today = now.astimezone(zone).date()
        days = (today + timedelta(days=direction.value * number) for number in (0, 1))
        times = (datetime.combine(day, clock, zone).astimezone(UTC) for day in days)
        is_past = direction is Direction.PAST
        return next(found for found in times if (found <= now if is_past else found > now))

    return at


def in_words(ahead: timedelta) -> str:
    """Return the distance to a future time in its two largest units: `in 3 h 20 min`."""
    seconds = int(ahead.total_seconds())
    if seconds < 60:
        return f"in {seconds} s"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return f"in {' '.join(parts[:2])}"
