"""Concurrent applies, each on its own connection."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import DeadlockDetected
from sqlalchemy.ext.asyncio import AsyncConnection
from support.fleet import (
    CREATING,
    Fleet,
    audit,
    names,
    numbered,
    revision,
    schedules,
    versions,
)
from support.sessions import until_found

from tenantcron.core.values import JsonObject
from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import DesiredState, Plan
from tenantcron.store.rows import tenant_schedules

ROUNDS = 8


def timetables(hour: int, count: int) -> dict[str, str]:
    """Return schedules of an hour; some of their names are shared with other hours."""
    shared = {f"shared-{number}": f"cron: '{number} {hour} * * *'" for number in range(4)}
    own = {f"own-{hour}-{number}": f"cron: '{number} {hour} * * *'" for number in range(count)}
    return shared | own


async def wanted(fleet: Fleet, hours: Sequence[int]) -> list[DesiredState]:
    """Check a manifest for each hour, all of the same tenant."""
    found = []
    for hour in hours:
        fleet.write("acme", timetables(hour, count=hour % 4 + 1))
        (prepared,) = await fleet.prepared()
        assert prepared.desired is not None
        found.append(prepared.desired)
    return found


def live(url: str) -> dict[str, str]:
    return {row["schedule_name"]: row["cron_expr"] for row in schedules(url, "acme")}


def as_desired(desired: DesiredState) -> dict[str, str]:
    return {schedule.schedule_name: schedule.cron_expr for schedule in desired.definitions}


@pytest.mark.parametrize("at_once", [2, 8])
async def test_concurrent_applies_of_a_tenant_are_serialised(
    fleet: Fleet, database_url: str, at_once: int
) -> None:
    manifests = await wanted(fleet, range(at_once))
    applier = fleet.applier()

    for _ in range(ROUNDS):
        plans: list[Plan] = await asyncio.gather(
            *(applier.apply(manifest) for manifest in manifests)
        )

        assert live(database_url) in [as_desired(manifest) for manifest in manifests], "never mixed"
        newest = versions(database_url, "acme")[-1]
        assert {schedule["schedule_name"] for schedule in newest["document"]["schedules"]} == set(
            live(database_url)
        )
        # Each apply saw the complete result of the previous one.
        numbers = sorted(plan.version for plan in plans if plan.makes_version)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    assert [version["version"] for version in versions(database_url, "acme")] == list(
        range(1, newest["version"] + 1)
    )
    assert revision(database_url, "acme") == newest["version"], "once for every apply"


async def test_concurrent_creations_of_a_tenant_all_succeed(
    fleet: Fleet, database_url: str
) -> None:
    fleet.write("acme", timetables(2, count=3))
    applier = fleet.applier(CREATING)
    (prepared,) = await fleet.prepared()
    assert prepared.desired is not None

    plans = await asyncio.gather(*(applier.apply(prepared.desired) for _ in range(8)))

    assert sum(not plan.is_empty for plan in plans) == 1, "the others find it done"
    assert len(names(database_url, "acme")) == 7
    assert [version["version"] for version in versions(database_url, "acme")] == [1]


async def test_concurrent_applies_of_a_fleet_apply_every_tenant_once(
    fleet: Fleet, database_url: str
) -> None:
    for tenant in ("acme", "beta", "gamma"):
        fleet.write(tenant, timetables(2, count=2))

    runs = await asyncio.gather(fleet.apply(), fleet.apply())

    for outcomes in zip(*runs, strict=True):
        assert {outcome.status for outcome in outcomes} <= {Status.APPLIED, Status.UNCHANGED}
        assert Status.APPLIED in {outcome.status for outcome in outcomes}
    for tenant in ("acme", "beta", "gamma"):
        assert [version["version"] for version in versions(database_url, tenant)] == [1]


WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE %'"
EDIT = "UPDATE tenant_acme.tenant_schedule SET cron_expr = '0 9 * * *'"


def edit_manually(url: str) -> bool:
    """Change all schedules; return whether the database committed it."""
    with psycopg.connect(url) as session:
        try:
            session.execute(EDIT)
        except DeadlockDetected:
            return False
    return True


async def test_a_deadlock_of_a_manual_edit_and_an_apply_rolls_one_of_them_back(
    fleet: Fleet, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The apply has locked the tenant and needs the rows; the edit has the reverse."""
    fleet.write("acme", numbered(3))
    await fleet.apply()
    fleet.write("acme", numbered(3, "cron: '0 3 * * *'"))
    edits: list[asyncio.Task[bool]] = []
    change = tenant_schedules.change

    async def change_later(
        connection: AsyncConnection, schema: str, rows: Sequence[JsonObject], version_id: UUID
    ) -> None:
        edits.append(asyncio.create_task(asyncio.to_thread(edit_manually, database_url)))
        await until_found(database_url, WAITING)
        await change(connection, schema, rows, version_id)

    monkeypatch.setattr(tenant_schedules, "change", change_later)
    (outcome,) = await fleet.apply()

    assert_whole(database_url, outcome, edited=await edits[0])


def assert_whole(url: str, outcome: ReconcileOutcome, *, edited: bool) -> None:
    """Check that the rolled back transaction changed nothing and the other one is recorded."""
    applied = outcome.status is Status.APPLIED
    assert applied != edited, "one of the two has to give way"
    if not applied:
        assert outcome.refusal is not None
        assert (outcome.refusal.code, outcome.plan) == ("TC606", None)
        assert "deadlock" in outcome.refusal.message
    assert set(live(url).values()) == {"0 3 * * *" if applied else "0 9 * * *"}
    assert len(versions(url, "acme")) == (2 if applied else 1)
    assert revision(url, "acme") == 2
    by = {record["changed_by"] for record in audit(url, "acme")[3:]}
    assert by == {"github:octocat" if applied else "postgres"}
