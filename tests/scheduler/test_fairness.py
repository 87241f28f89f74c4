"""Fairness: round by round over the tenants, then by priority, then by age."""

from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.claim import Sweep, claim_batch
from tenantcron.store.steps import claiming


async def test_a_long_queue_does_not_delay_the_only_execution_of_another_tenant(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(4)
    await scheduling.waiting(1000, tenant="busy", priority=0)
    first = await scheduling.claim_all()
    assert {execution.tenant_id for execution in first} == {"busy"}
    scheduling.clock.advance(seconds=1)
    await scheduling.waiting(1, tenant="quiet", priority=3)

    await scheduling.finish(first[0])
    (started,) = await scheduling.claim_all()

    assert started.tenant_id == "quiet"


async def test_waiting_tenants_share_slots_evenly(scheduling: Scheduling) -> None:
    await scheduling.limit(12)
    for tenant, count in (("a", 500), ("b", 50), ("c", 5), ("d", 1)):
        await scheduling.waiting(count, tenant=tenant)

    started = await scheduling.claim_all()

    shares = {name: sum(execution.tenant_id == name for execution in started) for name in "abcd"}
    assert sum(shares.values()) == 12
    assert shares["d"] == 1
    assert all(3 <= shares[name] <= 4 for name in "abc")


async def test_a_tenant_with_more_running_executions_comes_later(scheduling: Scheduling) -> None:
    await scheduling.limit(4)
    await scheduling.waiting(10, tenant="a")
    assert len(await scheduling.claim_all()) == 4
    await scheduling.limit(7)
    await scheduling.waiting(10, tenant="b")

    started = await scheduling.claim_all()

    assert [str(execution.tenant_id) for execution in started].count("b") >= 2


async def test_a_tenant_with_a_higher_weight_gets_more_slots_per_round(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(8)
    await scheduling.tenant("heavy", weight=3)
    await scheduling.waiting(50, tenant="heavy")
    await scheduling.waiting(50, tenant="light")

    started = await scheduling.claim_all()

    assert sum(execution.tenant_id == "heavy" for execution in started) == 6


async def test_within_a_tenant_priority_decides_and_then_age(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    for number, (name, priority) in enumerate(
        [("low", 3), ("new medium", 2), ("old medium", 2), ("critical", 0), ("high", 1)]
    ):
        age = timedelta(minutes=9 if name == "old medium" else 5 - number)
        await scheduling.waiting(1, schedule_name=name, priority=priority, not_before=NOON - age)

    order = []
    while started := await scheduling.claim_all():
        order.append(started[0].schedule_name)
        await scheduling.finish(started[0])

    assert order == ["critical", "high", "old medium", "new medium", "low"]


@pytest.fixture
def few_tenants_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "PAIRS_A_CLAIM", 3)


@pytest.mark.usefixtures("few_tenants_a_claim")
async def test_all_tenants_are_served_even_if_one_claim_cannot_consider_them(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    for number in range(23):
        await scheduling.waiting(2, tenant=f"t{number:02}", start_deadline=NOON)

    started = await scheduling.claim_all()

    assert len(started) == 46
    assert await scheduling.count(state="RUNNING") == 46


@pytest.mark.usefixtures("few_tenants_a_claim")
async def test_blocked_tenants_do_not_delay_those_after_them(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100, per_tenant=1)
    for number in range(12):
        await scheduling.waiting(2, tenant=f"blocked{number:02}")
    await scheduling.claim_all()
    await scheduling.waiting(1, tenant="zoe")

    (started,) = await scheduling.claim_all()

    assert started.tenant_id == "zoe"
    assert await scheduling.count(state="PENDING") == 12


@pytest.mark.usefixtures("few_tenants_a_claim")
async def test_with_few_slots_all_tenants_get_their_turn(scheduling: Scheduling) -> None:
    await scheduling.limit(2)
    names = [f"t{number:02}" for number in range(17)]
    for name in names:
        await scheduling.waiting(10, tenant=name)
    # One per minute, so a tenant that was served has a younger execution next.
    await scheduling.execute(
        "UPDATE tenantcron.execution AS e SET not_before = not_before - n * interval '1 minute'"
        " FROM (SELECT id, row_number() OVER (PARTITION BY tenant_id) AS n"
        " FROM tenantcron.execution) AS line WHERE line.id = e.id"
    )
    replica, sweep, served = scheduling.replica(), Sweep(), list[str]()

    for _ in range(24):
        should_continue, started = True, list[claiming.Claimed]()
        while should_continue:
            claim = await claim_batch(replica, after=sweep.after)
            started += claim.started
            should_continue = sweep.advance(claim)
        served += [execution.tenant_id for execution in started]
        for execution in started:
            await scheduling.finish(execution)

    assert len(served) == 48
    counts = [served.count(name) for name in names]
    assert min(counts) >= 1, counts


@pytest.mark.usefixtures("few_tenants_a_claim")
async def test_a_sweep_over_blocked_tenants_ends(scheduling: Scheduling) -> None:
    await scheduling.limit(100, per_tenant=0)
    for number in range(12):
        await scheduling.waiting(1, tenant=f"t{number:02}")
    replica, sweep = scheduling.replica(), Sweep()
    sweep.after = "t05"

    looks = 1
    while sweep.advance(await claim_batch(replica, after=sweep.after)):
        looks += 1
        assert looks < 20

    # The tenants after t05, and then all of them once.
    assert looks == 2 + 3
