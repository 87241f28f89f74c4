"""Limits of the cluster are never exceeded, whichever replica claims and however attempts end."""

import asyncio
from datetime import timedelta
from random import Random

from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.rows import limits
from tenantcron.store.steps.claiming import Claimed

OUTCOMES = [AttemptOutcome.SUCCEEDED, AttemptOutcome.SUCCEEDED, AttemptOutcome.INTERRUPTED]
RUNNING = (
    "SELECT tenant_id, count(*) AS number FROM tenantcron.execution WHERE state = 'RUNNING'"
    " GROUP BY tenant_id"
)


async def running(scheduling: Scheduling) -> dict[object, int]:
    """Return the number of running executions by tenant, in one snapshot."""
    found = await scheduling.query(RUNNING)
    return {row["tenant_id"]: int(str(row["number"])) for row in found}


async def test_concurrent_claims_and_results_never_exceed_a_limit(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(20, per_tenant=5)
    await scheduling.tenant("tight", max_concurrent=2)
    tenants = ("tight", "b", "c", "d", "e", "f", "g")
    for tenant in tenants:
        await scheduling.waiting(18, tenant=tenant)
    done = asyncio.Event()
    seen: list[dict[object, int]] = []

    async def watch() -> None:
        while not done.is_set():
            seen.append(await running(scheduling))

    async def work(number: int) -> None:
        replica, random = scheduling.replica(f"r{number}"), Random(number)  # noqa: S311 -- chance for a test
        held: list[Claimed] = []
        while await scheduling.query(
            "SELECT 1 FROM tenantcron.execution WHERE state IN ('PENDING', 'RETRYING') LIMIT 1"
        ):
            held += (await claim_batch(replica, random.randint(1, 9))).started
            random.shuffle(held)
            kept = random.randint(0, 2)
            ending, held = held[kept:], held[:kept]
            attempts = [Attempt(execution, random.choice(OUTCOMES)) for execution in ending]
            await finish_batch(replica, attempts)
        await finish_batch(
            replica, [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in held]
        )

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(work(number) for number in range(4)))
    done.set()
    await watching

    assert len(seen) > 20
    most = {tenant: max(snapshot.get(tenant, 0) for snapshot in seen) for tenant in tenants}
    assert most["tight"] <= 2
    assert max(most.values()) <= 5
    # The limit must be reached, or the test would show nothing.
    assert 14 <= max(sum(snapshot.values()) for snapshot in seen) <= 20


async def test_a_changed_limit_applies_from_the_next_claim(scheduling: Scheduling) -> None:
    for tenant in ("a", "b", "c"):
        await scheduling.waiting(30, tenant=tenant)
    await scheduling.limit(6)
    first = await scheduling.claim_all()
    assert len(first) == 6

    await scheduling.limit(10)
    assert len(await scheduling.claim_all()) == 4

    await scheduling.limit(3)
    assert await scheduling.claim_all() == []
    for execution in first[:5]:
        await scheduling.finish(execution)
    assert sum((await running(scheduling)).values()) == 5
    assert await scheduling.claim_all() == []

    await scheduling.limit(0)
    assert await scheduling.claim_all() == []
    await scheduling.limit(20, per_tenant=2)
    await scheduling.claim_all()
    assert max((await running(scheduling)).values()) <= 3


async def test_resetting_a_limit_restores_the_setting(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(30, tenant="a")
    await scheduling.waiting(30, tenant="b")
    async with scheduling.database.transaction() as connection:
        await limits.declare(connection, 4, 3)
        await limits.set_by_operator(connection, {"operator": 1})
    assert len(await scheduling.claim_all()) == 1

    async with scheduling.database.transaction() as connection:
        await limits.set_by_operator(connection, {"operator": None})
    await scheduling.claim_all()

    assert sum((await running(scheduling)).values()) == 4
    assert max((await running(scheduling)).values()) <= 3


async def test_the_limit_of_a_tenant_overrides_the_default(scheduling: Scheduling) -> None:
    await scheduling.limit(100, per_tenant=5)
    await scheduling.tenant("wide", max_concurrent=9)
    await scheduling.tenant("tight", max_concurrent=1)
    for tenant in ("wide", "tight", "plain"):
        await scheduling.waiting(12, tenant=tenant, start_deadline=NOON)

    await scheduling.claim_all()

    assert await running(scheduling) == {"wide": 9, "tight": 1, "plain": 5}
    reasons = {
        row["tenant_id"]: row["reason"]
        for row in await scheduling.rows()
        if row["state"] == "SKIPPED"
    }
    assert reasons == {
        "wide": "tenant concurrency limit reached (9 of 9 running)",
        "tight": "tenant concurrency limit reached (1 of 1 running)",
        "plain": "tenant concurrency limit reached (5 of 5 running)",
    }


async def test_every_way_to_end_frees_the_slot(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(8)
    for outcome in AttemptOutcome:
        (claimed,) = await scheduling.claim_all()
        await scheduling.finish(claimed, outcome, final=True)
    assert sum((await running(scheduling)).values()) == 0
    assert len(await scheduling.claim_all()) == 1


async def test_an_expired_lease_keeps_its_slot_until_it_is_recovered(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(2, start_deadline=NOON + timedelta(hours=1))
    await scheduling.claim_all()
    scheduling.clock.advance(minutes=10)

    assert await scheduling.claim_all() == []
