"""Times in arguments and output of the command line."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.words import in_utc

# A time that may be relative: it takes the current time and returns the absolute one.
Moment = Callable[[datetime], datetime]
EXPECTED = "a time such as 2026-12-01T09:00:00Z, 18:00, monday, yesterday, 1h or +2h"

_CLOCK = re.compile("[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTEST_WEEKDAY = 3


class Direction(Enum):
    """Where a duration or a time of day without a sign points to."""

    PAST = -1
    FUTURE = 1


def moment(text: str, zone: ZoneInfo, direction: Direction) -> Moment:
    """Parse a time: ISO 8601, a time of day, a day with or without one, or a duration from now.

    A time without an offset is in `zone`, and a day without a time is its midnight. `+2h` is ahead
    and `-2h` is ago, whatever the direction.
    """
    day, _, clock = text.lower().partition(" ")
    try:
        if day in _DAYS:
            return _on_day(_DAYS[day], _clock(clock or "00:00"), zone)
        if len(day) >= _SHORTEST_WEEKDAY and any(name.startswith(day) for name in _WEEKDAYS):
            return _on_weekday(day, _clock(clock or "00:00"), zone, direction)
        if _CLOCK.fullmatch(text):
            return _nearest(_clock(text), zone, direction, range(2))
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


def _clock(text: str) -> time:
    """Parse a time of day."""
    if not _CLOCK.fullmatch(text):
        raise ValueError(text)
    return time.fromisoformat(text.zfill(5))


def _on_day(distance: int, clock: time, zone: ZoneInfo) -> Moment:
    def at(now: datetime) -> datetime:
        day = now.astimezone(zone).date() + timedelta(days=distance)
        return datetime.combine(day, clock, zone).astimezone(UTC)

    return at


def _on_weekday(name: str, clock: time, zone: ZoneInfo, direction: Direction) -> Moment:
    """Return the nearest such weekday in the direction."""
    wanted = next(at for at, weekday in enumerate(_WEEKDAYS) if weekday.startswith(name))

    def at(now: datetime) -> datetime:
        first = (wanted - now.astimezone(zone).weekday()) * direction.value % 7
        return _nearest(clock, zone, direction, (first, first + 7))(now)

    return at


def _nearest(clock: time, zone: ZoneInfo, direction: Direction, distances: Iterable[int]) -> Moment:
    """Return the first time at these distances in days that is not on the other side of now."""

    def at(now: datetime) -> datetime:
        today = now.astimezone(zone).date()
        days = (today + timedelta(days=direction.value * number) for number in distances)
        times = (datetime.combine(day, clock, zone).astimezone(UTC) for day in days)
        is_past = direction is Direction.PAST
        return next(found for found in times if (found <= now if is_past else found > now))

    return at


def utc(time: str) -> str:
    """Format a time of a response for people."""
    return in_utc(datetime.fromisoformat(time))


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
