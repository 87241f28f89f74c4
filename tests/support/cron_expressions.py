"""Random cron expressions together with their meaning, in a slow and simple implementation."""

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from hypothesis import strategies as st

DayTest = Callable[[date], bool]

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = tuple(name.lower() for name in calendar.month_abbr if name)


@dataclass(frozen=True, slots=True)
class Term:
    """One term: its text, and its values."""

    text: str
    values: frozenset[int]


@dataclass(frozen=True, slots=True)
class DayTerm:
    """One term of a day field: its text, and whether a date matches."""

    text: str
    matches: DayTest


@dataclass(frozen=True, slots=True)
class Meaning:
    """An expression and its meaning."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    day_terms: tuple[DayTerm, ...]
    weekday_terms: tuple[DayTerm, ...]

    @property
    def follows_clock(self) -> bool:
        """Whether the hour field begins with a star."""
        return self.text.split()[1].startswith("*")

    def matches_day(self, day: date) -> bool:
        """Whether a date matches both day fields."""
        by_number = any(term.matches(day) for term in self.day_terms)
        by_weekday = any(term.matches(day) for term in self.weekday_terms)
        _, _, days, _, weekdays = self.text.split()
        either = days[0] not in "*?" and weekdays[0] not in "*?"
        joined = (by_number or by_weekday) if either else (by_number and by_weekday)
        return joined and day.month in self.months


def weekday(day: date) -> int:
    """Return the weekday as cron counts: 0 is Sunday."""
    return day.isoweekday() % 7


def month_days(day: date) -> list[date]:
    """Return all days of the month of a day."""
    return _month_from(day.replace(day=1))


@cache
def _month_from(first: date) -> list[date]:
    days = [first + timedelta(days=n) for n in range(31)]
    return [day for day in days if day.month == first.month]


def is_workday(day: date) -> bool:
    """Whether the day is one of Monday to Friday."""
    return day.isoweekday() <= 5


def nearest_workday(number: int) -> DayTest:
    """Check `nW`: the workday of the month that is closest to day n."""

    def matches(day: date) -> bool:
        days = month_days(day)
        if number > len(days):
            return False
        workdays = [other.day for other in days if is_workday(other)]
        # From a Saturday the Friday is closer and from a Sunday the Monday, so there are no ties.
        return day.day == min(workdays, key=lambda n: abs(n - number))

    return matches


def last_workday(day: date) -> bool:
    """Check `LW`."""
    return day == max(other for other in month_days(day) if is_workday(other))


def days_before_last(number: int) -> DayTest:
    """Check `L` and `L-n`."""
    return lambda day: day.day == len(month_days(day)) - number


def nth_weekday(number: int, nth: int) -> DayTest:
    """Check `d#n`."""

    def matches(day: date) -> bool:
        same = [other for other in month_days(day) if weekday(other) == number]
        return day in same and same.index(day) == nth - 1

    return matches


def last_weekday(number: int) -> DayTest:
    """Check `dL`."""
    return lambda day: day == max(other for other in month_days(day) if weekday(other) == number)


@st.composite
def plain_terms(draw: st.DrawFn, low: int, high: int) -> Term:
    """Draw one of `*`, `*/n`, `a`, `a-b`, `a-b/n`, `a/n`."""
    first = draw(st.integers(low, high))
    last = draw(st.integers(low, high))
    step = draw(st.integers(1, high - low + 1))
    shapes = [
        Term("*", frozenset(range(low, high + 1))),
        Term(f"*/{step}", frozenset(range(low, high + 1, step))),
        Term(str(first), frozenset({first})),
        Term(str(first), frozenset({first})),
        Term(f"{first}/{step}", frozenset(range(first, high + 1, step))),
    ]
    if first < last:
        shapes.append(Term(f"{first}-{last}", frozenset(range(first, last + 1))))
        shapes.append(Term(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))))
    return draw(st.sampled_from(shapes))


@st.composite
def named_months(draw: st.DrawFn) -> Term:
    """Draw a month by name, in any case."""
    number = draw(st.integers(1, 12))
    name = MONTHS[number - 1]
    return Term(draw(st.sampled_from([name, name.upper(), name.title()])), frozenset({number}))


@st.composite
def number_day_terms(draw: st.DrawFn) -> DayTerm:
    """Draw a term of the day of month field."""
    plain = draw(plain_terms(1, 31))
    number = draw(st.integers(1, 31))
    back = draw(st.integers(1, 30))
    return draw(
        st.sampled_from(
            [
                DayTerm(plain.text, lambda day: day.day in plain.values),
                DayTerm(plain.text, lambda day: day.day in plain.values),
                DayTerm("L", days_before_last(0)),
                DayTerm(f"L-{back}", days_before_last(back)),
                DayTerm("LW", last_workday),
                DayTerm(f"{number}W", nearest_workday(number)),
            ]
        )
    )


@st.composite
def weekday_terms(draw: st.DrawFn) -> DayTerm:
    """Draw a term of the weekday field, including ranges into Sunday and Sunday as 7."""
    plain = draw(plain_terms(0, 6))
    number = draw(st.integers(1, 6))
    nth = draw(st.integers(1, 6))
    name = WEEKDAYS[number]
    return draw(
        st.sampled_from(
            [
                DayTerm(plain.text, lambda day: weekday(day) in plain.values),
                DayTerm(plain.text, lambda day: weekday(day) in plain.values),
                DayTerm("7", lambda day: weekday(day) == 0),
                DayTerm(f"{name}-sun", lambda day: day.isoweekday() >= number),
                DayTerm(f"{number}-7/2", lambda day: day.isoweekday() in range(number, 8, 2)),
                DayTerm(f"{name}#{nth}", nth_weekday(number, nth)),
                DayTerm(f"7#{nth}", nth_weekday(0, nth)),
                DayTerm(f"{name}L", last_weekday(number)),
                DayTerm("0L", last_weekday(0)),
            ]
        )
    )


def _values(terms: list[Term]) -> frozenset[int]:
    return frozenset().union(*(term.values for term in terms))


def _text(terms: list[Term] | list[DayTerm]) -> str:
    return ",".join(term.text for term in terms)


@st.composite
def meanings(draw: st.DrawFn) -> Meaning:
    """Draw an expression of the full dialect, with its meaning."""
    every_day = [DayTerm("*", lambda _: True)]
    question_mark = [DayTerm("?", lambda _: True)]
    minutes = draw(st.lists(plain_terms(0, 59), min_size=1, max_size=3))
    hours = draw(st.lists(plain_terms(0, 23), min_size=1, max_size=3))
    some_months = st.lists(plain_terms(1, 12) | named_months(), min_size=1, max_size=3)
    months = draw(st.just([Term("*", frozenset(range(1, 13)))]) | some_months)
    number_days = st.lists(number_day_terms(), min_size=1, max_size=3)
    days = draw(st.just(every_day) | st.just(question_mark) | number_days)
    some_weekdays = st.lists(weekday_terms(), min_size=1, max_size=3)
    weekdays = draw(st.just(every_day) | st.just(question_mark) | some_weekdays)
    return Meaning(
        text=" ".join(_text(terms) for terms in (minutes, hours, days, months, weekdays)),
        minutes=_values(minutes),
        hours=_values(hours),
        months=_values(months),
        day_terms=tuple(days),
        weekday_terms=tuple(weekdays),
    )
