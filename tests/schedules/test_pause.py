"""A pause holds up to its end, and not at it."""

from datetime import UTC, datetime, timedelta

from tenantcron.schedules.pause import Pause, in_force, recorded_pause
from tenantcron.schedules.upcoming import next_executions

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def pause(until: datetime | None) -> Pause:
    return Pause(NOW - timedelta(days=1), "maria", "partner is down", until)


def test_a_pause_without_an_end_holds_always() -> None:
    assert pause(None).is_in_force(NOW + timedelta(days=9999))
    assert next_executions("0 8 * * *", "UTC", NOW, pause(None)) == ()


def test_a_pause_holds_until_the_moment_before_its_end() -> None:
    assert pause(NOW + MOMENT).is_in_force(NOW)
    assert not pause(NOW).is_in_force(NOW)
    assert in_force(pause(NOW), NOW) is None


def test_an_occurrence_at_the_end_of_a_pause_is_the_next_execution() -> None:
    until = datetime(2026, 12, 1, 8, tzinfo=UTC)

    assert next_executions("0 8 * * *", "UTC", NOW, pause(until), 1) == (until,)


def test_the_end_of_a_pause_is_a_moment_whatever_the_zone_of_the_schedule() -> None:
    until = datetime(2026, 12, 1, 7, tzinfo=UTC)

    (first,) = next_executions("0 8 * * *", "Europe/Berlin", NOW, pause(until), 1)

    assert first == until
    assert first.isoformat() == "2026-12-01T08:00:00+01:00"


def test_columns_without_a_pause_are_none_and_edited_ones_do_not_fail() -> None:
    assert recorded_pause(None, "maria", "down", None) is None
    assert recorded_pause(NOW, None, None, None) == Pause(NOW, "", "", None)
