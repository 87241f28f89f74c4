"""Days that depend on the month: its last day, a workday, a weekday counted within it.

Each rule answers with a mask of the month's days: bit d is set if day d matches. `length` is the
number of days and `first` the weekday of day 1; weekdays count as in cron, 0 is Sunday.
"""

from dataclasses import dataclass
from typing import Protocol

SUNDAY = 0
SATURDAY = 6


class DayRule(Protocol):
    """A day of the month that is not a plain number."""

    def mask(self, length: int, first: int) -> int:
        """Return the days that match in a month of this kind."""
        ...


@dataclass(frozen=True, slots=True)
class LastDay:
    """`L` and `L-n`: the last day of the month, or the day `before` days ahead of it."""

    before: int = 0

    def mask(self, length: int, first: int) -> int:  # noqa: ARG002 - every rule is asked alike
        """Return that day, if the month is long enough to have it."""
        return 1 << length - self.before if self.before < length else 0


@dataclass(frozen=True, slots=True)
class LastWorkday:
    """`LW`: the last Monday to Friday of the month."""

    def mask(self, length: int, first: int) -> int:
        """Return the nearest workday to the last day."""
        return NearestWorkday(length).mask(length, first)


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """`nW`: the Monday to Friday nearest to day n, inside the same month."""

    day: int

    def mask(self, length: int, first: int) -> int:
        """Return that workday; a month without day n has none."""
        if self.day > length:
            return 0
        weekday = weekday_of(self.day, first)
        if weekday == SATURDAY:
            return 1 << (self.day - 1 if self.day > 1 else 3)
        if weekday == SUNDAY:
            return 1 << (self.day + 1 if self.day < length else length - 2)
        return 1 << self.day


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """`d#n`: the n-th such weekday of the month."""

    weekday: int
    nth: int

    def mask(self, length: int, first: int) -> int:
        """Return that day; most months have no fifth and none has a sixth."""
        day = 1 + (self.weekday - first) % 7 + 7 * (self.nth - 1)
        return 1 << day if day <= length else 0


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """`dL`: the last such weekday of the month."""

    weekday: int

    def mask(self, length: int, first: int) -> int:
        """Return that day, which every month has."""
        return 1 << length - (weekday_of(length, first) - self.weekday) % 7


def weekday_of(day: int, first: int) -> int:
    """Return the weekday of a day in a month whose day 1 is the weekday `first`."""
    return (first + day - 1) % 7
