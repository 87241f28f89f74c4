"""Terms of the two day fields only: `L`, `L-n`, `LW`, `nW`, and `d#n`, `dL`."""

import re
from functools import lru_cache

from tenantcron.cron.day_rules import (
    DayRule,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
)
from tenantcron.cron.fields import DAY_OF_MONTH, WEEKDAY, Field, read_value, term_error

# Used for an error message only, so it is compiled at its first use and not at import.
_LAST_REVERSED = r"[lL]([0-7]|[a-zA-Z]{3})"


@lru_cache(maxsize=1024)
def day_rule(field: Field, term: str) -> DayRule | None:
    """Read a term that depends on the month; None if it is not one."""
    if field is DAY_OF_MONTH:
        return _day_of_month_rule(term)
    if field is WEEKDAY:
        return _weekday_rule(term)
    return None


def _day_of_month_rule(term: str) -> DayRule | None:
    upper = term.upper()
    if upper == "L":
        return LastDay()
    if upper == "LW":
        return LastWorkday()
    if upper.startswith("L-") and term[2:].isdigit():
        return _days_before_last(term, int(term[2:]))
    if upper.endswith("W") and term[:-1].isdigit():
        return NearestWorkday(read_value(DAY_OF_MONTH, term[:-1], term))
    if upper.startswith("W") and term[1:].isdigit():
        problem = "the W for the nearest workday goes after the day"
        raise term_error(DAY_OF_MONTH, term, problem, f"write {term[1:]}W")
    return None


def _days_before_last(term: str, days: int) -> DayRule:
    if 1 <= days <= 30:
        return LastDay(days)
    problem = "the number after L- must be from 1 to 30"
    raise term_error(DAY_OF_MONTH, term, problem, "write L for the last day itself")


def _weekday_rule(term: str) -> DayRule | None:
    if "#" in term:
        return _nth_weekday(term)
    if term.upper() == "L":
        problem = "L needs a weekday before it"
        raise term_error(WEEKDAY, term, problem, "write 5L for the last Friday, 6 for Saturday")
    if match := re.fullmatch(_LAST_REVERSED, term):
        problem = "the L for the last weekday goes after the weekday"
        raise term_error(WEEKDAY, term, problem, f"write {match[1]}L")
    if term[-1] in "lL":
        return LastWeekday(read_value(WEEKDAY, term[:-1], term) % 7)
    return None


def _nth_weekday(term: str) -> DayRule:
    """Read `d#n`; a sixth or later weekday is valid but never matches, like 31 February."""
    weekday, _, nth = term.partition("#")
    if len(nth) != 1 or nth not in "123456789":
        problem = "the number after # must be from 1 to 5"
        raise term_error(
            WEEKDAY, term, problem, "write mon#1 for the first Monday, monL for the last"
        )
    return NthWeekday(read_value(WEEKDAY, weekday, term) % 7, int(nth))
