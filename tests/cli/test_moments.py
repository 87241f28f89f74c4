"""Times in arguments: absolute, times of day and durations from now."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tenantcron.cli.moments import Direction, moment
from tenantcron.core.errors import UsageError

LONDON = ZoneInfo("Europe/London")
# 13:30 in London.
NOW = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
PAST, FUTURE = Direction.PAST, Direction.FUTURE


@pytest.mark.parametrize(
    ("text", "direction", "expected"),
    [
        ("1h", PAST, "2026-07-01T11:30Z"),
        ("1h", FUTURE, "2026-07-01T13:30Z"),
        ("+2h", PAST, "2026-07-01T14:30Z"),
        ("-2h", FUTURE, "2026-07-01T10:30Z"),
        ("1d12h", PAST, "2026-06-30T00:30Z"),
        ("18:00", FUTURE, "2026-07-01T17:00Z"),
        ("13:00", FUTURE, "2026-07-02T12:00Z"),
        ("18:00", PAST, "2026-06-30T17:00Z"),
        ("13:00", PAST, "2026-07-01T12:00Z"),
        ("9:15", PAST, "2026-07-01T08:15Z"),
        ("13:30:00", PAST, "2026-07-01T12:30Z"),
        ("13:30", FUTURE, "2026-07-02T12:30Z"),
        # NOW is a Wednesday.
        ("today", PAST, "2026-06-30T23:00Z"),
        ("yesterday", PAST, "2026-06-29T23:00Z"),
        ("yesterday 18:00", PAST, "2026-06-30T17:00Z"),
        ("tomorrow", FUTURE, "2026-07-01T23:00Z"),
        ("monday", FUTURE, "2026-07-05T23:00Z"),
        ("Monday 9:30", FUTURE, "2026-07-06T08:30Z"),
        ("monday", PAST, "2026-06-28T23:00Z"),
        ("wed", PAST, "2026-06-30T23:00Z"),
        ("wed", FUTURE, "2026-07-07T23:00Z"),
        ("wed 18:00", FUTURE, "2026-07-01T17:00Z"),
        ("wed 18:00", PAST, "2026-06-24T17:00Z"),
        ("2026-12-01", PAST, "2026-12-01T00:00Z"),
        ("2026-07-01T18:00", FUTURE, "2026-07-01T17:00Z"),
        ("2026-07-01T18:00+02:00", FUTURE, "2026-07-01T16:00Z"),
    ],
)
def test_a_time_is_absolute_a_time_of_day_or_a_duration(
    text: str, direction: Direction, expected: str
) -> None:
    assert moment(text, LONDON, direction)(NOW) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "h",
        "1x",
        "25:00",
        "12:60",
        "someday",
        "mo",
        "1h-",
        "+18:00",
        "monday 25:00",
        "monday x",
    ],
)
def test_anything_else_is_a_usage_error_with_examples(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not a time such as .*18:00, monday, yesterday, 1h or \+2h"
    ):
        moment(text, LONDON, FUTURE)


def test_a_duration_beyond_the_calendar_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="too far away"):
        moment("9999d", LONDON, PAST)(datetime(20, 1, 1, tzinfo=UTC))
