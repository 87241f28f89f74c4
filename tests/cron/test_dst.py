"""Clock changes, case by case: each table row is one clock change and one kind of expression.

"Fixed" expressions fire a skipped time right after the gap and a repeated one the first time only.
"Shown" ones (an hour field that begins with a star) fire whenever the clock shows a match.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tenantcron.cron.occurrences import next_occurrence, previous_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone


@dataclass(frozen=True, slots=True)
class Case:
    """The expected occurrences after an instant; all instants in UTC."""

    name: str
    zone: str
    expression: str
    after: str
    expected: tuple[str, ...]


LONDON = (
    Case(
        name="fixed time in the gap fires at the transition",
        zone="Europe/London",
        expression="30 1 * * *",
        after="2026-03-28T00:00",
        expected=("2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"),
    ),
    Case(
        name="fixed times in the gap and at its end are one",
        zone="Europe/London",
        expression="0,30 1,2 * * *",
        after="2026-03-29T00:00",
        expected=("2026-03-29T01:00", "2026-03-29T01:30", "2026-03-30T00:00"),
    ),
    Case(
        name="shown times in the gap do not fire",
        zone="Europe/London",
        expression="30 * * * *",
        after="2026-03-29T00:00",
        expected=("2026-03-29T00:30", "2026-03-29T01:30", "2026-03-29T02:30"),
    ),
    Case(
        name="shown hour at the end of the gap fires",
        zone="Europe/London",
        expression="0 */2 * * *",
        after="2026-03-28T23:59",
        expected=("2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T03:00"),
    ),
    Case(
        name="fixed time that comes twice fires the first time",
        zone="Europe/London",
        expression="30 1 * * *",
        after="2026-10-24T00:00",
        expected=("2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"),
    ),
    Case(
        name="fixed time from within the second pass waits for the next day",
        zone="Europe/London",
        expression="30 1 * * *",
        after="2026-10-25T01:10",
        expected=("2026-10-26T01:30", "2026-10-27T01:30"),
    ),
    Case(
        name="fixed time right at the end of the repeated hour fires once",
        zone="Europe/London",
        expression="0 2 * * *",
        after="2026-10-25T01:10",
        expected=("2026-10-25T02:00", "2026-10-26T02:00"),
    ),
    Case(
        name="shown time that comes twice fires twice",
        zone="Europe/London",
        expression="30 * * * *",
        after="2026-10-24T23:45",
        expected=("2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"),
    ),
    Case(
        name="shown time at the transition itself fires again",
        zone="Europe/London",
        expression="0 * * * *",
        after="2026-10-25T00:59",
        expected=("2026-10-25T01:00", "2026-10-25T02:00"),
    ),
    Case(
        name="shown time of one date fires twice and then a year later",
        zone="Europe/London",
        expression="0-10/5 */24,1 25 10 *",
        after="2026-10-25T00:06",
        expected=(
            "2026-10-25T00:10",
            "2026-10-25T01:00",
            "2026-10-25T01:05",
            "2026-10-25T01:10",
            "2027-10-24T23:00",
        ),
    ),
)
NEW_YORK = (
    Case(
        name="fixed in the gap",
        zone="America/New_York",
        expression="30 2 * * *",
        after="2026-03-07T00:00",
        expected=("2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30"),
    ),
    Case(
        name="shown: every second hour loses the skipped one",
        zone="America/New_York",
        expression="*/30 */2 * * *",
        after="2026-03-08T05:15",
        expected=("2026-03-08T05:30", "2026-03-08T08:00", "2026-03-08T08:30"),
    ),
    Case(
        name="fixed in the repeated hour",
        zone="America/New_York",
        expression="15 1 * * *",
        after="2026-11-01T00:00",
        expected=("2026-11-01T05:15", "2026-11-02T06:15"),
    ),
    Case(
        name="shown in the repeated hour",
        zone="America/New_York",
        expression="15 * * * *",
        after="2026-11-01T05:00",
        expected=("2026-11-01T05:15", "2026-11-01T06:15", "2026-11-01T07:15"),
    ),
)
HALF_HOURS = (
    Case(
        name="Lord Howe repeats 30 minutes, fixed",
        zone="Australia/Lord_Howe",
        expression="45 1 * * *",
        after="2026-04-03T00:00",
        expected=("2026-04-03T14:45", "2026-04-04T14:45", "2026-04-05T15:15"),
    ),
    Case(
        name="Lord Howe repeats 30 minutes, shown",
        zone="Australia/Lord_Howe",
        expression="45 * * * *",
        after="2026-04-04T14:00",
        expected=("2026-04-04T14:45", "2026-04-04T15:15", "2026-04-04T16:15"),
    ),
    Case(
        name="Lord Howe skips 30 minutes, fixed",
        zone="Australia/Lord_Howe",
        expression="15 2 * * *",
        after="2026-10-02T00:00",
        expected=("2026-10-02T15:45", "2026-10-03T15:30", "2026-10-04T15:15"),
    ),
    Case(
        name="Lord Howe skips 30 minutes, shown",
        zone="Australia/Lord_Howe",
        expression="*/15 * * * *",
        after="2026-10-03T15:00",
        expected=("2026-10-03T15:15", "2026-10-03T15:30", "2026-10-03T15:45"),
    ),
    Case(
        name="Chatham repeats from a quarter to, fixed",
        zone="Pacific/Chatham",
        expression="0 3 * * *",
        after="2026-04-03T00:00",
        expected=("2026-04-03T13:15", "2026-04-04T13:15", "2026-04-05T14:15"),
    ),
    Case(
        name="Chatham repeats from a quarter to, shown",
        zone="Pacific/Chatham",
        expression="0 * * * *",
        after="2026-04-04T13:00",
        expected=("2026-04-04T13:15", "2026-04-04T14:15", "2026-04-04T15:15"),
    ),
    Case(
        name="Chatham skips from a quarter to, fixed",
        zone="Pacific/Chatham",
        expression="0 3 * * *",
        after="2026-09-25T00:00",
        expected=("2026-09-25T14:15", "2026-09-26T14:00", "2026-09-27T13:15"),
    ),
    Case(
        name="Chatham skips from a quarter to, shown",
        zone="Pacific/Chatham",
        expression="0 * * * *",
        after="2026-09-26T13:00",
        expected=("2026-09-26T13:15", "2026-09-26T14:15", "2026-09-26T15:15"),
    ),
)
DAYS_AND_TWO_HOURS = (
    Case(
        name="Apia skips a day, fixed",
        zone="Pacific/Apia",
        expression="0 9 * * *",
        after="2011-12-29T00:00",
        expected=("2011-12-29T19:00", "2011-12-30T10:00", "2011-12-30T19:00"),
    ),
    Case(
        name="Apia skips the very date, fixed",
        zone="Pacific/Apia",
        expression="0 0 30 12 *",
        after="2010-12-01T00:00",
        expected=("2010-12-30T10:00", "2011-12-30T10:00", "2012-12-29T10:00"),
    ),
    Case(
        name="Apia: the skipped midnight and the next one are one",
        zone="Pacific/Apia",
        expression="0 0 30,31 12 *",
        after="2011-12-29T12:00",
        expected=("2011-12-30T10:00", "2012-12-29T10:00", "2012-12-30T10:00"),
    ),
    Case(
        name="Apia skips a day, shown",
        zone="Pacific/Apia",
        expression="0 */12 * * *",
        after="2011-12-29T12:00",
        expected=("2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00"),
    ),
    Case(
        name="Troll skips two hours, fixed",
        zone="Antarctica/Troll",
        expression="30 1,2 * * *",
        after="2026-03-28T02:00",
        expected=("2026-03-28T02:30", "2026-03-29T01:00", "2026-03-29T23:30"),
    ),
    Case(
        name="Troll skips two hours, shown",
        zone="Antarctica/Troll",
        expression="30 * * * *",
        after="2026-03-29T00:00",
        expected=("2026-03-29T00:30", "2026-03-29T01:30"),
    ),
    Case(
        name="Troll repeats two hours, fixed",
        zone="Antarctica/Troll",
        expression="30 2 * * *",
        after="2026-10-24T23:00",
        expected=("2026-10-25T00:30", "2026-10-26T02:30"),
    ),
    Case(
        name="Troll repeats two hours, shown",
        zone="Antarctica/Troll",
        expression="30 */2 * * *",
        after="2026-10-24T22:00",
        expected=("2026-10-24T22:30", "2026-10-25T00:30", "2026-10-25T02:30", "2026-10-25T04:30"),
    ),
)
MIDNIGHTS = (
    Case(
        name="Sao Paulo skips midnight, fixed",
        zone="America/Sao_Paulo",
        expression="0 0 * * *",
        after="2018-11-03T00:00",
        expected=("2018-11-03T03:00", "2018-11-04T03:00", "2018-11-05T02:00"),
    ),
    Case(
        name="Sao Paulo skips midnight, shown",
        zone="America/Sao_Paulo",
        expression="0 */6 * * *",
        after="2018-11-03T20:00",
        expected=("2018-11-03T21:00", "2018-11-04T08:00", "2018-11-04T14:00"),
    ),
    Case(
        name="Sao Paulo repeats the last hour of a day, fixed",
        zone="America/Sao_Paulo",
        expression="30 23 * * *",
        after="2019-02-16T12:00",
        expected=("2019-02-17T01:30", "2019-02-18T02:30"),
    ),
    Case(
        name="Sao Paulo: the midnight after the repeated hour comes once",
        zone="America/Sao_Paulo",
        expression="0 0 * * *",
        after="2019-02-16T00:00",
        expected=("2019-02-16T02:00", "2019-02-17T03:00", "2019-02-18T03:00"),
    ),
    Case(
        name="Sao Paulo repeats the last hour of a day, shown",
        zone="America/Sao_Paulo",
        expression="30 * * * *",
        after="2019-02-17T01:00",
        expected=("2019-02-17T01:30", "2019-02-17T02:30", "2019-02-17T03:30"),
    ),
    Case(
        name="Beirut skips midnight, fixed",
        zone="Asia/Beirut",
        expression="15 0 * * *",
        after="2026-03-27T12:00",
        expected=("2026-03-27T22:15", "2026-03-28T22:00", "2026-03-29T21:15"),
    ),
    Case(
        name="Beirut repeats the last hour of a day, fixed",
        zone="Asia/Beirut",
        expression="15 23 * * *",
        after="2026-10-24T12:00",
        expected=("2026-10-24T20:15", "2026-10-25T21:15"),
    ),
    Case(
        name="Beirut repeats the last hour of a day, shown",
        zone="Asia/Beirut",
        expression="15 * * * *",
        after="2026-10-24T20:00",
        expected=("2026-10-24T20:15", "2026-10-24T21:15", "2026-10-24T22:15"),
    ),
    Case(
        name="Cairo skips the midnight of a Friday, fixed on Fridays",
        zone="Africa/Cairo",
        expression="0 0 * * 5",
        after="2026-04-16T00:00",
        expected=("2026-04-16T22:00", "2026-04-23T22:00", "2026-04-30T21:00"),
    ),
    Case(
        name="Cairo repeats the last hour of a Thursday, fixed",
        zone="Africa/Cairo",
        expression="0 23 * * *",
        after="2026-10-28T12:00",
        expected=("2026-10-28T20:00", "2026-10-29T20:00", "2026-10-30T21:00"),
    ),
    Case(
        name="Havana skips midnight, fixed",
        zone="America/Havana",
        expression="0 0 * * *",
        after="2025-03-08T00:00",
        expected=("2025-03-08T05:00", "2025-03-09T05:00", "2025-03-10T04:00"),
    ),
    Case(
        name="Havana repeats the first hour of a day, fixed",
        zone="America/Havana",
        expression="0 0 * * *",
        after="2025-11-01T00:00",
        expected=("2025-11-01T04:00", "2025-11-02T04:00", "2025-11-03T05:00"),
    ),
    Case(
        name="Havana repeats the first hour of a day, shown",
        zone="America/Havana",
        expression="0 * * * *",
        after="2025-11-02T03:30",
        expected=("2025-11-02T04:00", "2025-11-02T05:00", "2025-11-02T06:00"),
    ),
    Case(
        name="Santiago repeats the last hour of a day, fixed",
        zone="America/Santiago",
        expression="59 23 * * *",
        after="2026-04-04T12:00",
        expected=("2026-04-05T02:59", "2026-04-06T03:59"),
    ),
    Case(
        name="Santiago skips the midnight of the very date, fixed",
        zone="America/Santiago",
        expression="0 0 6 9 *",
        after="2026-01-01T00:00",
        expected=("2026-09-06T04:00", "2027-09-06T03:00"),
    ),
)
CASES = (*LONDON, *NEW_YORK, *HALF_HOURS, *DAYS_AND_TWO_HOURS, *MIDNIGHTS)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.zone}: {case.name}")


def utc(text: str) -> datetime:
    """Read an instant of the tables."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@every_case
def test_next_occurrences(case: Case) -> None:
    found = upcoming(parse(case.expression), zone(case.zone), utc(case.after))
    assert list(islice(found, len(case.expected))) == [utc(text) for text in case.expected]


@every_case
def test_previous_occurrences_are_the_same_backwards(case: Case) -> None:
    timetable, clock = parse(case.expression), zone(case.zone)
    instant = utc(case.expected[-1])
    for expected in reversed(case.expected[:-1]):
        found = previous_occurrence(timetable, clock, instant)
        assert found == utc(expected)
        instant = found


def test_results_are_in_utc_whatever_the_zone_of_the_argument() -> None:
    clock = zone("Europe/London")
    moment = datetime(2026, 7, 1, 12, 0, tzinfo=zone("Asia/Tokyo"))
    found = next_occurrence(parse("0 5 * * *"), clock, moment)
    assert found == utc("2026-07-01T04:00")
    assert found.tzinfo is UTC


def test_an_argument_in_the_skipped_hour_of_the_zone_is_a_valid_instant() -> None:
    clock = zone("Europe/London")
    # By PEP 495 the skipped 01:30 is read with the offset before the gap, so it is 01:30 in UTC.
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=clock)
    assert next_occurrence(parse("30 * * * *"), clock, moment) == utc("2026-03-29T02:30")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("2026-03-29T01:00", "2026-03-28T01:30"),
        ("2026-03-29T01:00:00.000001", "2026-03-29T01:00"),
    ],
)
def test_the_transition_is_an_occurrence_of_the_times_it_skips(before: str, expected: str) -> None:
    found = previous_occurrence(parse("30 1 * * *"), zone("Europe/London"), utc(before))
    assert found == utc(expected)


def test_an_offset_with_seconds_keeps_its_seconds() -> None:
    # Until 1972 the clocks of Monrovia were 44 minutes and 30 seconds behind UTC.
    found = next_occurrence(parse("0 9 * * *"), zone("Africa/Monrovia"), utc("1971-06-01T00:00"))
    assert found == utc("1971-06-01T09:44:30")


def test_rules_apply_beyond_the_tables_of_the_database() -> None:
    found = upcoming(parse("30 1 * * *"), zone("Europe/London"), utc("2099-03-28T12:00"))
    assert next(found) == utc("2099-03-29T01:00")
    assert next(found) - utc("2099-03-30T00:30") == timedelta(0)
