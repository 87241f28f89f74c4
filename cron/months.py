"""The 28 kinds of month: 28 to 31 days, beginning on one of seven weekdays.

Whether a day matches depends only on the number of the month and its kind, so one mask per kind
is enough for all computations with days. Weekdays count as in cron: 0 is Sunday.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tenantcron.cron.day_rules import DayRule

KINDS = tuple((length, first) for length in range(28, 32) for first in range(7))

_COMMON = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAP = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Day 1 and every seventh day after it.
_WEEKLY = sum(1 << day for day in range(1, 32, 7))


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Return the number of days of the month."""
    return _LEAP[month] if is_leap(year) else _COMMON[month]


def kind_of(length: int, first: int) -> int:
    """Return the position of a kind of month in `KINDS`, and in every tuple of masks."""
    return (length - 28) * 7 + first


def possible_kinds(month: int) -> Iterator[int]:
    """Yield every kind that the month has in some year."""
    for length in {_COMMON[month], _LEAP[month]}:
        yield from range(kind_of(length, 0), kind_of(length, 7))


@lru_cache(maxsize=1024)
def number_masks(days: tuple[int, ...], rules: tuple[DayRule, ...]) -> tuple[int, ...]:
    """Return the masks of a day of month field: its numbers and its rules."""
    numbers = sum(1 << day for day in days)
    return _masks([numbers] * 7, rules)


@lru_cache(maxsize=1024)
def weekday_masks(weekdays: tuple[int, ...], rules: tuple[DayRule, ...]) -> tuple[int, ...]:
    """Return the masks of a weekday field: its weekdays and its rules."""
    by_first = [sum(_WEEKLY << (weekday - first) % 7 for weekday in weekdays) for first in range(7)]
    return _masks(by_first, rules)


def _masks(by_first: Sequence[int], rules: Sequence[DayRule]) -> tuple[int, ...]:
    """Cut the days to each month's length and add the days of the rules."""
    masks = []
    for length, first in KINDS:
        mask = by_first[first] & ((2 << length) - 1)
        for rule in rules:
            mask |= rule.mask(length, first)
        masks.append(mask)
    return tuple(masks)


def is_never(months: Sequence[int], day_masks: Sequence[int]) -> bool:
    """Whether no day matches in any of the months, in any year."""
    return not any(day_masks[kind] for month in months for kind in possible_kinds(month))
