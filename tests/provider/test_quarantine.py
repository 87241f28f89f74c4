"""Schedules of manifests obey the policy of the scheduler, however their rows came about."""

from datetime import timedelta
from pathlib import Path

from support.cursors import run
from support.fleet import Fleet, Shell, manifest, numbered

from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import refresh
from tenantcron.provider.schedule_limits import Bounds, revisit
from tenantcron.provider.tenant_schedules import TenantScheduleProvider

STRICT = Bounds(timedelta(minutes=15), 3)
CURSORS = "SELECT schedule_name, next_run_at, fault FROM tenantcron.schedule_cursor ORDER BY 1"


async def synced(fleet: Fleet, url: str, bounds: Bounds | None) -> dict[str, str | None]:
    """Refresh, and return the faults by the names of the schedules."""
    await refresh(fleet.database, TenantScheduleProvider(bounds))
    rows = run(url, CURSORS)
    assert all((row["next_run_at"] is None) == (row["fault"] is not None) for row in rows)
    return {row["schedule_name"]: row["fault"] for row in rows}


async def applied(fleet: Fleet, number: int) -> None:
    fleet.write("acme", numbered(number))
    await fleet.apply()


def make_frequent(url: str) -> None:
    """Change a row without an apply."""
    run(
        url,
        "UPDATE tenant_acme.tenant_schedule SET cron_expr = '@every 1s'"
        " WHERE schedule_name = 's001'",
    )


async def test_a_row_below_the_floor_is_quarantined_and_the_others_are_served(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 2)
    make_frequent(database_url)

    faults = await synced(fleet, database_url, STRICT)

    assert faults == {
        "s000": None,
        "s001": "the shortest gap of `@every 1s` is 1s; the platform requires at least 15m",
    }


async def test_rows_beyond_the_cap_are_quarantined(fleet: Fleet, database_url: str) -> None:
    await applied(fleet, 5)

    faults = await synced(fleet, database_url, STRICT)

    beyond = "the tenant may have 3 schedules, and has them"
    assert faults == {"s000": None, "s001": None, "s002": None, "s003": beyond, "s004": beyond}


async def test_the_limit_of_the_tenant_counts_before_the_one_of_the_policy(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 5)
    run(database_url, "UPDATE tenantcron.tenant SET max_schedules = 5")

    assert set((await synced(fleet, database_url, STRICT)).values()) == {None}


async def test_the_policy_can_have_a_cap_for_one_tenant(fleet: Fleet, database_url: str) -> None:
    await applied(fleet, 5)
    of_acme = Bounds(timedelta(minutes=15), 3, {TenantId("acme"): 5})
    assert set((await synced(fleet, database_url, of_acme)).values()) == {None}
    assert await revisit(fleet.database, of_acme) == 0

    of_another = Bounds(timedelta(minutes=15), 3, {TenantId("globex"): 5})
    assert await revisit(fleet.database, of_another) == 1

    faults = await synced(fleet, database_url, of_another)
    assert [name for name, fault in faults.items() if fault] == ["s003", "s004"]


async def test_a_schedule_that_obeys_again_is_served_again(fleet: Fleet, database_url: str) -> None:
    await applied(fleet, 2)
    make_frequent(database_url)
    await synced(fleet, database_url, STRICT)
    run(database_url, "UPDATE tenant_acme.tenant_schedule SET cron_expr = '0 3 * * *'")

    assert await synced(fleet, database_url, STRICT) == {"s000": None, "s001": None}


async def test_a_stricter_policy_reaches_schedules_that_have_not_changed(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 5)
    make_frequent(database_url)
    assert set((await synced(fleet, database_url, None)).values()) == {None}

    assert await revisit(fleet.database, STRICT) == 1

    faults = await synced(fleet, database_url, STRICT)
    assert [name for name, fault in faults.items() if fault] == ["s001", "s003", "s004"]


async def test_a_looser_policy_serves_quarantined_schedules_again(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 5)
    await synced(fleet, database_url, STRICT)
    loose = Bounds(timedelta(0), 100)

    assert await revisit(fleet.database, loose) == 1

    assert set((await synced(fleet, database_url, loose)).values()) == {None}


async def test_tenants_that_obey_the_policy_are_not_read_again(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 3)
    await synced(fleet, database_url, STRICT)
    assert await revisit(fleet.database, STRICT) == 0
    run(database_url, "UPDATE tenantcron.tenant SET max_schedules = 2")
    assert await revisit(fleet.database, STRICT) == 1


async def test_a_fault_that_firing_found_is_not_cleared_when_a_scheduler_starts(
    fleet: Fleet, database_url: str
) -> None:
    await applied(fleet, 1)
    await synced(fleet, database_url, STRICT)
    # The refresh would count from now again, because the row claims a later start.
    run(
        database_url,
        "UPDATE tenantcron.schedule_cursor"
        " SET fault = 'unreadable', effective_from = effective_from - interval '1 day'",
    )

    assert await revisit(fleet.database, STRICT) == 0
    await refresh(fleet.database, TenantScheduleProvider(STRICT))

    (cursor,) = run(database_url, CURSORS)
    assert (cursor["fault"], cursor["next_run_at"] is None) == ("unreadable", False)


def test_a_scheduler_with_a_stricter_policy_stops_what_a_looser_one_has_fired(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "acme.yaml").write_text(manifest("acme", {"often": "every: 1s"}), encoding="utf-8")
    (tmp_path / "tenantcron.toml").write_text('[policy]\nminimum_interval = "1s"\n')
    strict = tmp_path / "platform.toml"
    strict.write_text("[policy]\n")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("run", "--once").code == 0
    assert run(database_url, CURSORS)[0]["fault"] is None

    assert shell("run", "--once", "--policy", str(strict)).code == 0

    (cursor,) = run(database_url, CURSORS)
    fault = "is 1s; the platform requires at least 15m"
    assert (cursor["next_run_at"], fault in cursor["fault"]) == (None, True)
    for command in (("health",), ("why", "acme/often"), ("schedule", "show", "acme/often")):
        assert fault in " ".join(shell(*command).out.split()), command
