"""Timetables that never fire, fire rarely, or restrict both day fields."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from support.cron_expressions import Meaning, meanings

from tenantcron.cron.analysis import fires_rarely, never_fires, restricts_both_day_fields
from tenantcron.cron.occurrences import next_occurrence, previous_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone

ALL_KINDS_OF_YEAR = range(date(2001, 1, 1).toordinal(), date(2029, 1, 1).toordinal())

NEVER = (
    "0 0 30 2 *",
    "0 0 31 2 *",
    "0 0 31 4,6,9,11 *",
    "0 0 30,31 feb *",
    "0 0 31W 4 *",
    "0 0 30W 2 *",
    "0 0 L-29 2 *",
    "0 0 L-30 4,6 *",
    "0 0 * * 1#6",
    "0 0 * 2 1#6",
    "0 0 ? * mon#9,tue#7",
    # A field that begins with a star counts as unrestricted, so both must match.
    "0 0 31 2 */2",
)
SOMETIMES = (
    "* * * * *",
    "0 0 29 2 *",
    "0 0 31 2 1",
    "0 0 31 2,3 *",
    "0 0 30W 2,3 *",
    "0 0 L-28 2 *",
    "0 0 L-30 4,5 *",
    "0 0 * 2 1#5",
    "0 0 1 * 1#6",
    "0 0 31 2,4,6,9,11 1#1",
    "@every 45m",
    "@at 2026-12-01T09:00:00Z",
)
RARELY = (
    "0 0 29 2 *",
    "0 0 * 2 1#5",
    "0 0 */28 2 1",
    "0 0 L-28 2 *",
    "0 0 */31 1 1",
    # Any number of times on the day: 97 leap days in 400 years.
    "0 */4 29 2 *",
    "*/15 * 29 2 *",
    "* * 29 2 *",
    "0 0 1 1 *",
    "@yearly",
    "0 */4 31 12 *",
    "0 0 L 2 *",
    "0 0 * 1 1#1",
    "@every 365d",
)
OFTEN_ENOUGH = (
    "0 0 1 1,7 *",
    "0 0 1,2 1 *",
    "0 0 29 2,3 *",
    "0 0 L * *",
    "0 0 * * 1#5",
    "@every 364d",
    "@at 2026-12-01T09:00:00Z",
)


@pytest.mark.parametrize("text", NEVER)
def test_never_fires(text: str) -> None:
    timetable, utc = parse(text), zone("UTC")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert never_fires(timetable)
    assert next_occurrence(timetable, utc, now) is None
    assert previous_occurrence(timetable, utc, now) is None
    assert list(upcoming(timetable, utc, now)) == []


@pytest.mark.parametrize("text", SOMETIMES)
def test_fires_sometimes(text: str) -> None:
    timetable = parse(text)
    assert not never_fires(timetable)
    assert next_occurrence(timetable, zone("UTC"), datetime(2000, 1, 1, tzinfo=UTC)) is not None


@settings(max_examples=150)
@given(meaning=meanings())
def test_never_means_that_no_day_of_any_kind_of_year_matches(meaning: Meaning) -> None:
    matching = any(meaning.matches_day(date.fromordinal(day)) for day in ALL_KINDS_OF_YEAR)
    assert never_fires(parse(meaning.text)) is not matching


@pytest.mark.parametrize("text", RARELY)
def test_fires_once_a_year_or_less(text: str) -> None:
    assert fires_rarely(parse(text))


@pytest.mark.parametrize("text", OFTEN_ENOUGH)
def test_fires_more_than_once_a_year(text: str) -> None:
    assert not fires_rarely(parse(text))


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 */28 2 1", "0 */4 1 1 *", "0 0 */30 1 1,2"])
def test_rarely_is_computed_from_the_days_of_400_years(text: str) -> None:
    begin, end = datetime(2000, 12, 31, 23, 59, tzinfo=UTC), datetime(2401, 1, 1, tzinfo=UTC)
    days = set()
    for occurrence in upcoming(parse(text), zone("UTC"), begin):
        if occurrence >= end:
            break
        days.add(occurrence.date())
    assert fires_rarely(parse(text)) is (len(days) <= 400)


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("0 0 1 * 1", True),
        ("0 0 L * 5L", True),
        ("0 0 1-31 * 0-6", True),
        ("0 0 1,* * 1", True),
        ("0 0 * * 1", False),
        ("0 0 1 * *", False),
        ("0 0 */2 * 1", False),
        ("0 0 1 * */2", False),
        ("0 0 ? * 1", False),
        ("0 0 1 * ?", False),
        ("@weekly", False),
        ("@every 45m", False),
        ("@at 2026-12-01T09:00:00Z", False),
    ],
)
def test_both_day_fields_are_restricted_unless_one_begins_with_a_star(
    text: str, both: bool
) -> None:
    assert restricts_both_day_fields(parse(text)) is both
