"""Points in time: accepted forms, their zone, and rejected forms."""

from datetime import UTC, datetime

import pytest

from tenantcron.cron.instants import InstantError, read_instant


@pytest.mark.parametrize(
    "text", ["2026-12-01T09:00Z", "2026-12-01 09:00:00Z", "2026-12-01T10:00:00.000+01:00"]
)
def test_a_time_with_an_offset_is_an_instant_in_utc(text: str) -> None:
    instant = read_instant(text)
    assert instant == datetime(2026, 12, 1, 9, tzinfo=UTC)
    assert instant.tzinfo is UTC


@pytest.mark.parametrize("text", ["2026-12-01T09:00", "2026-12-01 09:00:00"])
def test_a_time_without_an_offset_is_a_wall_clock_value(text: str) -> None:
    assert read_instant(text) == datetime(2026, 12, 1, 9)  # noqa: DTZ001 -- a wall-clock value


@pytest.mark.parametrize("text", ["", "2026-12-01", "20261201T0900Z", "2026-12-01T24:00Z", "٢026"])
def test_other_forms_are_rejected(text: str) -> None:
    with pytest.raises(InstantError, match="is not a time such as"):
        read_instant(text)


@pytest.mark.parametrize("text", ["2026-02-30T09:00Z", "0001-01-01T00:00+14:00"])
def test_a_date_that_does_not_exist_is_rejected(text: str) -> None:
    with pytest.raises(InstantError, match="is not a valid date and time"):
        read_instant(text)
