"""New time zones: future occurrences are recomputed, and no past occurrence is fired."""

from datetime import datetime

import pytest
from support.cursors import cursors, run, set_cursor, utc
from support.fleet import Fleet

from tenantcron.cron.zones import tz_version
from tenantcron.provider.refresh import refresh
from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.provider.tenant_schedules import TenantScheduleProvider

NOW = utc(2031, 5, 5, 12)
OLD = "2019c"


@pytest.fixture
async def followed(fleet: Fleet) -> Fleet:
    """Four schedules at 02:00 in Paris, which is midnight in UTC in May."""
    words = "cron: '0 2 * * *', timezone: Europe/Paris"
    fleet.write("acme", dict.fromkeys(("ahead", "due", "current", "off"), words))
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())
    return fleet


def prepare(url: str) -> None:
    """Simulate that the older zones were an hour off."""
    set_cursor(url, "ahead", tz_version=OLD, next_run_at=utc(2031, 5, 6, 1))
    set_cursor(url, "due", tz_version=OLD, next_run_at=utc(2031, 5, 5, 1))
    set_cursor(url, "current", next_run_at=utc(2031, 5, 6, 1))
    set_cursor(url, "off", tz_version=OLD, enabled=False, next_run_at=None)


def nexts(url: str) -> dict[str, datetime | None]:
    return {name: row["next_run_at"] for name, row in cursors(url).items()}


async def test_only_future_occurrences_of_older_zones_are_recomputed(
    followed: Fleet, database_url: str
) -> None:
    prepare(database_url)

    assert await recompute_for_new_zones(followed.database, NOW) == 1

    assert nexts(database_url) == {
        "ahead": utc(2031, 5, 6, 0),
        "current": utc(2031, 5, 6, 1),
        "due": utc(2031, 5, 5, 1),
        "off": None,
    }
    assert cursors(database_url)["ahead"]["tz_version"] == tz_version()
    assert await recompute_for_new_zones(followed.database, NOW) == 0


async def test_many_cursors_are_recomputed_in_batches(
    followed: Fleet, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.provider.rezoning.CURSORS_A_BATCH", 1)
    run(
        database_url,
        "UPDATE tenantcron.schedule_cursor SET tz_version = %s, next_run_at = %s",
        OLD,
        utc(2031, 5, 6, 1),
    )

    assert await recompute_for_new_zones(followed.database, NOW) == 4
    assert set(nexts(database_url).values()) == {utc(2031, 5, 6, 0)}


async def test_without_a_moment_the_databases_clock_decides(
    followed: Fleet, database_url: str
) -> None:
    set_cursor(database_url, "ahead", tz_version=OLD)
    before = nexts(database_url)

    assert await recompute_for_new_zones(followed.database) == 1
    assert nexts(database_url) == before


async def test_a_replica_with_older_zones_does_not_change_newer_ones(followed: Fleet) -> None:
    assert await recompute_for_new_zones(followed.database, version=OLD) == 0
