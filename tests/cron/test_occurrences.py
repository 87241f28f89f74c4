"""Occurrences apart from clock changes: intervals, single times, the ends of the calendar."""

from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantcron.cron.occurrences import next_occurrence, previous_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone

TEXTS = ("30 2 * * *", "0 * * * *", "0 0 29 2 *", "@every 45m", "@at 2026-12-01T09:00:00Z")
MICROSECOND = timedelta(microseconds=1)


def utc(text: str) -> datetime:
    """Read an instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment", "previous", "following"),
    [
        ("@every 45m", "2026-01-01T00:00", "2025-12-31T23:15", "2026-01-01T00:45"),
        ("@every 45m", "2026-01-01T00:10", "2026-01-01T00:00", "2026-01-01T00:45"),
        ("@every 45m", "2026-01-01T00:00:00.000001", "2026-01-01T00:00", "2026-01-01T00:45"),
        ("@every 7d", "2026-01-01T00:00", "2025-12-25T00:00", "2026-01-08T00:00"),
        ("@every 1s", "1969-12-31T23:59:59.5", "1969-12-31T23:59:59", "1970-01-01T00:00"),
        ("@every 1h30m", "1969-12-31T23:00", "1969-12-31T22:30", "1970-01-01T00:00"),
    ],
)
def test_intervals_count_from_1970(text: str, moment: str, previous: str, following: str) -> None:
    timetable, clock = parse(text), zone("Asia/Kathmandu")
    assert previous_occurrence(timetable, clock, utc(moment)) == utc(previous)
    assert next_occurrence(timetable, clock, utc(moment)) == utc(following)


def test_a_single_time_is_strictly_after_or_strictly_before() -> None:
    timetable, clock = parse("@at 2026-12-01T09:00:00Z"), zone("UTC")
    instant = utc("2026-12-01T09:00")
    assert next_occurrence(timetable, clock, instant - MICROSECOND) == instant
    assert next_occurrence(timetable, clock, instant) is None
    assert previous_occurrence(timetable, clock, instant) is None
    assert previous_occurrence(timetable, clock, instant + MICROSECOND) == instant
    assert list(upcoming(timetable, clock, utc("2026-01-01T00:00"))) == [instant]


@pytest.mark.parametrize("text", TEXTS)
def test_a_moment_without_a_zone_is_rejected(text: str) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 -- the rejected value
    with pytest.raises(ValueError, match="without a time zone"):
        next_occurrence(parse(text), zone("UTC"), naive)
    with pytest.raises(ValueError, match="without a time zone"):
        previous_occurrence(parse(text), zone("UTC"), naive)
    with pytest.raises(ValueError, match="without a time zone"):
        next(upcoming(parse(text), zone("UTC"), naive))


@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Pacific/Auckland"])
@pytest.mark.parametrize("text", ["30 2 * * *", "0 * * * *", "@every 45m"])
def test_at_the_ends_of_the_calendar_there_is_no_more(text: str, name: str) -> None:
    timetable, clock = parse(text), zone(name)
    last = datetime.max.replace(tzinfo=UTC)
    first = datetime.min.replace(tzinfo=UTC)
    assert next_occurrence(timetable, clock, last) is None
    assert previous_occurrence(timetable, clock, first) is None
    assert previous_occurrence(timetable, clock, first + timedelta(minutes=1)) in (None, first)


@settings(max_examples=200)
@given(
    text=st.sampled_from(TEXTS),
    name=st.sampled_from(["UTC", "Europe/London", "America/New_York", "Pacific/Kiritimati"]),
    hours=st.integers(0, 24 * 800),
    at_the_end=st.booleans(),
)
def test_near_the_ends_of_the_calendar_nothing_raises(
    text: str, name: str, hours: int, at_the_end: bool
) -> None:
    timetable, clock = parse(text), zone(name)
    if at_the_end:
        moment = datetime(MAXYEAR, 12, 31, 23, 59, tzinfo=UTC) - timedelta(hours=hours)
    else:
        moment = datetime(MINYEAR, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    following = next_occurrence(timetable, clock, moment)
    previous = previous_occurrence(timetable, clock, moment)
    assert following is None or following > moment
    assert previous is None or previous < moment


def test_a_search_over_centuries_ends() -> None:
    # No leap day from 1896 to 1904 and from 2096 to 2104.
    found = upcoming(parse("0 0 29 2 *"), zone("UTC"), utc("2096-01-01T00:00"))
    assert [at.year for at in islice(found, 3)] == [2096, 2104, 2108]
    assert previous_occurrence(parse("0 0 29 2 *"), zone("UTC"), utc("1904-02-29T00:00")) == utc(
        "1896-02-29T00:00"
    )


@pytest.mark.parametrize(
    ("moment", "following", "previous"),
    [
        ("2026-05-05T02:30", "2026-05-06T02:30", "2026-05-04T02:30"),
        ("2026-05-05T02:29:59.999999", "2026-05-05T02:30", "2026-05-04T02:30"),
        ("2026-05-05T02:30:00.000001", "2026-05-06T02:30", "2026-05-05T02:30"),
        ("2026-05-05T02:30:59", "2026-05-06T02:30", "2026-05-05T02:30"),
        ("2026-12-31T23:59", "2027-01-01T02:30", "2026-12-31T02:30"),
    ],
)
def test_next_is_strictly_after_and_previous_strictly_before(
    moment: str, following: str, previous: str
) -> None:
    timetable, clock = parse("30 2 * * *"), zone("UTC")
    assert next_occurrence(timetable, clock, utc(moment)) == utc(following)
    assert previous_occurrence(timetable, clock, utc(moment)) == utc(previous)
