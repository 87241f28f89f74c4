"""Stored timetables in their zones."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantcron.cron.errors import CronError
from tenantcron.cron.zones import UnknownZoneError
from tenantcron.schedules.timetable import zoned_timetable

NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
ONCE = "@at 2026-12-01T09:00:00Z"


def test_occurrences_follow_the_zone() -> None:
    timetable = zoned_timetable("0 2 * * *", "Asia/Tokyo")

    first, second = islice(timetable.upcoming(NOW), 2)

    assert first == timetable.next_after(NOW) == datetime(2026, 12, 1, 17, tzinfo=UTC)
    assert second - first == timedelta(days=1)


def test_a_single_time_has_ended_once_it_has_passed() -> None:
    timetable = zoned_timetable(ONCE, "Europe/Paris")

    assert timetable.limits(NOW) == ""
    assert timetable.limits(NOW + timedelta(hours=1)) == "ended on Tue 2026-12-01 10:00 CET"


def test_only_an_interval_occurs_at_all_its_multiples() -> None:
    assert zoned_timetable("@every 45m", "UTC").interval == timedelta(minutes=45)
    assert zoned_timetable("*/15 * * * *", "UTC").interval is None


@pytest.mark.parametrize(
    ("cron_expr", "timezone", "error"),
    [("61 * * * *", "UTC", CronError), ("0 2 * * *", "Mars/Base", UnknownZoneError)],
)
def test_an_invalid_timetable_is_refused(
    cron_expr: str, timezone: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        zoned_timetable(cron_expr, timezone)


FIRST = NOW.replace(tzinfo=None)
LOCAL = st.datetimes(FIRST, FIRST + timedelta(days=730)).map(
    lambda time: time.replace(second=0, microsecond=0)
)
EXPRESSIONS = ("0 2 * * *", "30 1 * * *", "*/45 * * * *", "@every 7h", ONCE)
ZONES = ("UTC", "Europe/London", "America/Santiago", "Pacific/Apia")


@given(
    expression=st.sampled_from(EXPRESSIONS),
    timezone=st.sampled_from(ZONES),
    bounds=st.tuples(LOCAL, LOCAL).map(sorted),
    days_before=st.integers(-5, 5),
)
def test_bounds_select_among_the_occurrences_and_move_none(
    expression: str, timezone: str, bounds: list[datetime], days_before: int
) -> None:
    starts, ends = (time.isoformat(timespec="minutes") for time in bounds)
    every = zoned_timetable(expression, timezone)
    bounded = zoned_timetable(f"{expression} {starts}/{ends}", timezone)
    assert bounded.starts is not None
    assert bounded.ends is not None
    begin, end = bounded.starts, bounded.ends
    after = begin - timedelta(days=days_before)

    ahead = takewhile(lambda time: time < end, every.upcoming(after))
    expected = islice((time for time in ahead if time >= begin), 20)

    assert list(islice(bounded.upcoming(after), 20)) == list(expected)
