"""Clock changes of a zone: the instants of a wall-clock value before and after a transition.

PEP 495 gives every wall-clock value two instants: one by the offset before a transition nearby
(`fold=0`) and one by the offset after it (`fold=1`). Away from transitions they are equal.
A repeated value has them in order, `by_old < by_new`: its first and second pass. A skipped value
has them reversed, `by_new < by_old`, and does not exist as an instant. Either way the transition is
between the two: after the earlier, not after the later.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast
from zoneinfo import ZoneInfo

_SECOND = timedelta(seconds=1)


class Transition(NamedTuple):
    """The instant of a jump, and what the clock shows then by the old and by the new offset.

    A jump forwards skips the values from `old_wall` up to `new_wall`; a jump backwards repeats
    those from `new_wall` up to `old_wall`.
    """

    instant: datetime
    old_wall: datetime
    new_wall: datetime


def instants_of(zone: ZoneInfo, wall: datetime) -> tuple[datetime, datetime]:
    """Return the instants of the value by the old and by the new offset."""
    clock = wall.time()
    as_utc = datetime.combine(wall, clock, UTC)
    old = _offset(zone, datetime.combine(wall, clock, zone))
    new = _offset(zone, _second_pass(zone, wall))
    return as_utc - old, as_utc - new


def shows_again(zone: ZoneInfo, local: datetime) -> bool:
    """Whether an instant's local time is the first pass of a repeated value."""
    return not local.fold and _offset(zone, local) != _offset(zone, _second_pass(zone, local))


def _second_pass(zone: ZoneInfo, wall: datetime) -> datetime:
    # Written out because this is the hot path, and datetime.replace takes four times as long.
    return datetime(
        wall.year,
        wall.month,
        wall.day,
        wall.hour,
        wall.minute,
        wall.second,
        wall.microsecond,
        zone,
        fold=1,
    )


def _offset(zone: ZoneInfo, local: datetime) -> timedelta:
    # ZoneInfo.utcoffset returns None only if it is called with None.
    return cast("timedelta", zone.utcoffset(local))


def transition_at(zone: ZoneInfo, wall: datetime) -> Transition:
    """Return the transition that skips or repeats the value; other values have none."""
    # Transitions happen on whole seconds, so the search uses whole seconds.
    wall = wall.replace(microsecond=0, tzinfo=None, fold=0)
    by_old, by_new = instants_of(zone, wall)
    instant = _first_instant_of_new(zone, wall, by_old, by_new)
    return Transition(instant, wall + (instant - by_old), wall + (instant - by_new))


def _first_instant_of_new(
    zone: ZoneInfo, wall: datetime, by_old: datetime, by_new: datetime
) -> datetime:
    """Find the transition between the two instants by bisection."""
    before, after = min(by_old, by_new), max(by_old, by_new)
    while after - before > _SECOND:
        middle = before + (after - before) // (2 * _SECOND) * _SECOND
        shown = middle.astimezone(zone).replace(tzinfo=None)
        if shown == wall + (middle - by_old):
            before = middle
        else:
            after = middle
    return after
