"""The expected occurrences of the harness: calendar cases with results computed manually."""

from datetime import UTC, datetime, timedelta

import pytest

from faults.expectation import Cron, Every, last_change

# On 25 October 2026 the clocks of Berlin go back from 03:00 to 02:00, at 01:00 UTC.
BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)
# On 4 October 2026 the clocks of Sydney skip the hour from 02:00, at 16:00 UTC of the day before.
AHEAD = datetime(2026, 10, 3, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)


def times(timetable: Cron | Every, after: datetime, until: datetime) -> list[str]:
    return [f"{moment:%H:%M:%S}" for moment in timetable.occurrences(after, until)]


def test_an_interval_fires_at_its_multiples_in_a_range() -> None:
    noon = datetime(2026, 12, 1, 12, tzinfo=UTC)
    until = noon + timedelta(seconds=9)
    assert times(Every(3), noon, until) == ["12:00:03", "12:00:06", "12:00:09"]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        # 02:30 is shown at 00:30 and at 01:30 UTC: a fixed time fires the first time.
        ("30 2 * * *", ["00:30:00"]),
        ("30 * * * *", ["23:30:00", "00:30:00", "01:30:00", "02:30:00"]),
        ("15,45 2,3 * * *", ["00:15:00", "00:45:00", "02:15:00", "02:45:00"]),
    ],
)
def test_an_hour_that_is_repeated(cron: str, expected: list[str]) -> None:
    around = (BACK - 2 * HOUR, BACK + 2 * HOUR)
    assert times(Cron(cron, "Europe/Berlin"), *around) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        # 02:30 is skipped: it fires when the clock jumps to 03:00.
        ("30 2 * * *", ["16:00:00"]),
        ("30 * * * *", ["14:30:00", "15:30:00", "16:30:00", "17:30:00"]),
        ("15,45 2,3 * * *", ["16:00:00", "16:15:00", "16:45:00"]),
    ],
)
def test_an_hour_that_is_skipped(cron: str, expected: list[str]) -> None:
    around = (AHEAD - 2 * HOUR, AHEAD + 2 * HOUR)
    assert times(Cron(cron, "Australia/Sydney"), *around) == expected


def test_the_last_change_of_a_clock_is_found() -> None:
    november = datetime(2026, 11, 16, 14, 10, tzinfo=UTC)
    assert last_change("Europe/Berlin", november) == BACK
    assert last_change("Australia/Sydney", november) == AHEAD


def test_other_fields_raise_an_error() -> None:
    cron = Cron("0 2 1 * *", "UTC")
    with pytest.raises(ValueError, match="only minutes and hours"):
        list(cron.occurrences(BACK, BACK + HOUR))
