"""Days that depend on the month: its last day, a workday, a weekday counted within it.

Each rule returns a mask of the month's days: bit d is set if day d matches. `length` is the number
of days and `first` the weekday of day 1. Weekdays count as in cron: 0 is Sunday. Rules are compared
by identity, so parsing returns the same object for the same term.
"""

from typing import Protocol

SUNDAY = 0
SATURDAY = 6


class DayRule(Protocol):
    """A day of the month that is not a plain number."""

    def mask(self, length: int, first: int) -> int:
        """Return the days that match in a month of this kind."""
        ...


class LastDay:
    """`L` and `L-n`: the last day of the month, or `before` days before it."""

    __slots__ = ("_before",)

    def __init__(self, before: int = 0) -> None:
        self._before = before

    def mask(self, length: int, first: int) -> int:  # noqa: ARG002 - the signature of all rules
        """Return that day, if the month is long enough to have it."""
        return 1 << length - self._before if self._before < length else 0


class LastWorkday:
    """`LW`: the last Monday to Friday of the month."""

    __slots__ = ()

    def mask(self, length: int, first: int) -> int:
        """Return the nearest workday to the last day."""
        return NearestWorkday(length).mask(length, first)


class NearestWorkday:
    """`nW`: the Monday to Friday nearest to day n, inside the same month."""

    __slots__ = ("_day",)

    def __init__(self, day: int) -> None:
        self._day = day

    def mask(self, length: int, first: int) -> int:
        """Return that workday; a month without day n has none."""
        if self._day > length:
            return 0
        weekday = weekday_of(self._day, first)
        if weekday == SATURDAY:
            return 1 << (self._day - 1 if self._day > 1 else 3)
        if weekday == SUNDAY:
            return 1 << (self._day + 1 if self._day < length else length - 2)
        return 1 << self._day


class NthWeekday:
    """`d#n`: the n-th such weekday of the month."""

    __slots__ = ("_nth", "_weekday")

    def __init__(self, weekday: int, nth: int) -> None:
        self._weekday = weekday
        self._nth = nth

    def mask(self, length: int, first: int) -> int:
        """Return that day; most months have no fifth one, and none has a sixth."""
        day = 1 + (self._weekday - first) % 7 + 7 * (self._nth - 1)
        return 1 << day if day <= length else 0


class LastWeekday:
    """`dL`: the last such weekday of the month."""

    __slots__ = ("_weekday",)

    def __init__(self, weekday: int) -> None:
        self._weekday = weekday

    def mask(self, length: int, first: int) -> int:
        """Return that day, which every month has."""
        return 1 << length - (weekday_of(length, first) - self._weekday) % 7


def weekday_of(day: int, first: int) -> int:
    """Return the weekday of a day in a month whose day 1 is the weekday `first`."""
    return (first + day - 1) % 7
