"""The expected occurrences, computed by brute force without any code of the product.

An interval fires at its multiples since 1970. A cron timetable here has a minute and an hour field,
every day. It is compared with the local time of its zone, minute by minute:

- If its hour field begins with a star, it fires whenever the clock shows a match: twice in an hour
  that is repeated, and not at all in one that is skipped.
- Otherwise it fires when the highest clock reading so far passes a match. So a repeated time fires
  once, and a skipped one fires when the clock jumps over it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The longest clock change; the readings start this long before the first moment.
_LONGEST_JUMP = timedelta(hours=4)
_LONGEST_SEARCH = timedelta(days=380)


@dataclass(frozen=True, slots=True)
class Every:
    """An interval in seconds."""

    seconds: int

    def document(self) -> dict[str, object]:
        """Return it as written in a manifest."""
        return {"every": f"{self.seconds}s"}

    def occurrences(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the occurrences in (after, until]."""
        step = timedelta(seconds=self.seconds)
        moment = _EPOCH + ((after - _EPOCH) // step + 1) * step
        while moment <= until:
            yield moment
            moment += step


@dataclass(frozen=True, slots=True)
class Cron:
    """Minutes and hours of every day in a zone."""

    expression: str
    zone: str

    def document(self) -> dict[str, object]:
        """Return it as written in a manifest."""
        return {"cron": self.expression, "timezone": self.zone}

    def occurrences(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the occurrences in (after, until]."""
        return (moment for moment in _all(self, after, until) if moment > after)


Timetable = Every | Cron


@lru_cache(maxsize=256)
def _all(cron: Cron, after: datetime, until: datetime) -> tuple[datetime, ...]:
    minutes, hours, *days = cron.expression.split(" ")
    if days != ["*", "*", "*"]:
        raise ValueError(f"{cron.expression}: only minutes and hours are supported here")
    matching = {(hour, minute) for hour in _values(hours, 24) for minute in _values(minutes, 60)}
    find = _shown if hours.startswith("*") else _passed
    return tuple(find(matching, ZoneInfo(cron.zone), after, until))


def _values(field: str, size: int) -> Iterator[int]:
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            yield from range(0, size, int(step or 1))
        else:
            yield int(span)


def _minutes(
    zone: ZoneInfo, after: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Yield every minute with the local time that the clock shows then."""
    moment = after.replace(second=0, microsecond=0)
    while moment <= until:
        yield moment, moment.astimezone(zone).replace(tzinfo=None)
        moment += _MINUTE


def _shown(
    matching: set[tuple[int, int]], zone: ZoneInfo, after: datetime, until: datetime
) -> Iterator[datetime]:
    for moment, wall in _minutes(zone, after, until):
        if (wall.hour, wall.minute) in matching:
            yield moment


def _passed(
    matching: set[tuple[int, int]], zone: ZoneInfo, after: datetime, until: datetime
) -> Iterator[datetime]:
    highest: datetime | None = None
    for moment, wall in _minutes(zone, after - _LONGEST_JUMP, until):
        reading = wall if highest is None else highest + _MINUTE
        fires = False
        while reading <= wall:
            fires = fires or (reading.hour, reading.minute) in matching
            reading += _MINUTE
        highest = wall if highest is None else max(highest, wall)
        if fires:
            yield moment


@lru_cache(maxsize=64)
def last_change(zone: str, before: datetime) -> datetime:
    """Return the hour of the last clock change of a zone."""
    place, moment = (
        ZoneInfo(zone),
        before.astimezone(UTC).replace(minute=0, second=0, microsecond=0),
    )
    offset, oldest = moment.astimezone(place).utcoffset(), before - _LONGEST_SEARCH
    while moment > oldest and moment.astimezone(place).utcoffset() == offset:
        moment -= _HOUR
    return moment + _HOUR
