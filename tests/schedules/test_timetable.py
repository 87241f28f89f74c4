"""Stored timetables in their zones."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

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
