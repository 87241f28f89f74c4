"""Days that depend on the month, compared with a walk over the calendar."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import takewhile

import pytest
from hypothesis import given, settings
from support.cron_expressions import (
    Meaning,
    days_before_last,
    last_weekday,
    last_workday,
    meanings,
    nearest_workday,
    nth_weekday,
)

from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.zones import zone

# Every kind of year and of month, a leap century and a common one.
YEARS = (*range(2001, 2029), 1900, 2000, 2100)
ALL_DAYS = [
    date.fromordinal(number)
    for year in YEARS
    for number in range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal())
]


@dataclass(frozen=True, slots=True)
class Rule:
    """The two day fields, and what they mean in terms of dates."""

    days: str
    weekdays: str
    matches: Callable[[date], bool]


RULES = (
    Rule(days="L", weekdays="*", matches=days_before_last(0)),
    *(Rule(days=f"L-{n}", weekdays="*", matches=days_before_last(n)) for n in (1, 3, 27, 28, 30)),
    Rule(days="LW", weekdays="*", matches=last_workday),
    *(
        Rule(days=f"{n}W", weekdays="*", matches=nearest_workday(n))
        for n in (1, 2, 15, 28, 29, 30, 31)
    ),
    *(
        Rule(days="*", weekdays=f"{day}#{nth}", matches=nth_weekday(day, nth))
        for day in (0, 3, 6)
        for nth in (1, 4, 5, 6)
    ),
    *(Rule(days="*", weekdays=f"{day}L", matches=last_weekday(day)) for day in range(7)),
)


def matches(timetable: CronTimetable, day: date) -> bool:
    """Whether the timetable fires on the date, using the public interface."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    eve = begin.fromtimestamp(begin.timestamp() - 1, UTC)
    found = next(upcoming(timetable, zone("UTC"), eve), None)
    return found is not None and found.date() == day


def cron(text: str) -> CronTimetable:
    """Parse a cron expression."""
    timetable = parse(text)
    assert isinstance(timetable, CronTimetable)
    return timetable


def fired_in(text: str, year: int) -> list[str]:
    """Return the dates of one year on which the expression fires, as text."""
    begin = datetime(year - 1, 12, 31, 23, 59, tzinfo=UTC)
    found = takewhile(lambda at: at.year == year, upcoming(parse(text), zone("UTC"), begin))
    return [f"{at:%m-%d}" for at in found]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.days} {rule.weekdays}")
def test_fires_on_the_expected_days_of_28_years(rule: Rule) -> None:
    timetable = cron(f"0 0 {rule.days} * {rule.weekdays}")
    found = upcoming(timetable, zone("UTC"), datetime(2000, 12, 31, 12, tzinfo=UTC))
    fired = [at.date() for at in takewhile(lambda at: at.year <= 2028, found)]
    assert fired == [day for day in ALL_DAYS if 2001 <= day.year <= 2028 and rule.matches(day)]


@settings(max_examples=150)
@given(meaning=meanings())
def test_both_day_fields_combine_by_the_rule(meaning: Meaning) -> None:
    timetable = cron(" ".join(["0", "0", *meaning.text.split()[2:]]))
    for day in ALL_DAYS[:: 1 + len(meaning.text)]:
        assert matches(timetable, day) == meaning.matches_day(day), day


@pytest.mark.parametrize(
    ("text", "year", "expected"),
    [
        ("0 0 L 2 *", 2028, ["02-29"]),
        ("0 0 L 2 *", 2100, ["02-28"]),
        # 1 August 2026 is a Saturday: the Friday before is another month.
        ("0 0 1W 8 *", 2026, ["08-03"]),
        # 31 May 2026 is a Sunday: the Monday after is another month.
        ("0 0 31W 5 *", 2026, ["05-29"]),
        ("0 0 15W 8 *", 2026, ["08-14"]),
        ("0 0 16W 8 *", 2026, ["08-17"]),
        ("0 0 31W 2,4,6 *", 2026, []),
        ("0 0 LW 5 *", 2026, ["05-29"]),
        ("0 0 L,1W,10 8 *", 2026, ["08-03", "08-10", "08-31"]),
        ("0 0 * 2 1#5", 2044, ["02-29"]),
        ("0 0 13 11 5", 2026, ["11-06", "11-13", "11-20", "11-27"]),
        ("0 0 */13 11 5", 2026, ["11-27"]),
        ("0 0 13 2 */5", 2026, ["02-13"]),
        ("0 0 L 2 5L", 2026, ["02-27", "02-28"]),
        ("0 0 ? 2 5L", 2026, ["02-27"]),
    ],
)
def test_days_of_one_year(text: str, year: int, expected: list[str]) -> None:
    assert fired_in(text, year) == expected
