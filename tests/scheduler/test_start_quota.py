"""The quota of starts per minute: cluster-wide, counted with the claim, and then it waits."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.rows import limits
from tenantcron.store.steps.claiming import Claimed

MINUTE = timedelta(minutes=1)


async def declare(scheduling: Scheduling, starts: int, **tenants: int) -> None:
    async with scheduling.database.transaction() as connection:
        own = {TenantId(name): {"starts_per_minute": quota} for name, quota in tenants.items()}
        declared = DeclaredQuotas({"starts_per_minute": starts}, own)
        await limits.declare_quotas(connection, declared)


async def counted(scheduling: Scheduling) -> dict[str, int]:
    return {row["tenant_id"]: row["number"] for row in await scheduling.rows("tenant_start", "1")}


async def start_and_end(scheduling: Scheduling, *replicas: Replica, batch: int) -> Counter[str]:
    """Let the replicas claim at the same time, end what started, and repeat until nothing does."""
    starts: Counter[str] = Counter()
    while True:
        claims = await asyncio.gather(*(claim_batch(replica, batch) for replica in replicas))
        started: list[Claimed] = [execution for claim in claims for execution in claim.started]
        if not started:
            return starts
        starts.update(execution.tenant_id for execution in started)
        ended = [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
        await finish_batch(scheduling.replica(), ended)


@pytest.mark.parametrize("batch", [1, 4, 800])
@pytest.mark.parametrize("slots", [3, 100])
async def test_two_replicas_together_start_the_quota_of_each_minute(
    scheduling: Scheduling, batch: int, slots: int
) -> None:
    await scheduling.limit(slots)
    await declare(scheduling, 6, beta=2)
    for tenant, number in {"acme": 14, "beta": 3, "crow": 5}.items():
        await scheduling.waiting(number, tenant=tenant, overlap="allow")
    replicas = [scheduling.replica("one"), scheduling.replica("two")]

    first = await start_and_end(scheduling, *replicas, batch=batch)
    assert first == {"acme": 6, "beta": 2, "crow": 5}
    assert await counted(scheduling) == first
    scheduling.clock.now += MINUTE - timedelta(microseconds=1)
    assert not await start_and_end(scheduling, *replicas, batch=batch)
    scheduling.clock.now += timedelta(microseconds=1)
    assert await start_and_end(scheduling, *replicas, batch=batch) == {"acme": 6, "beta": 1}
    scheduling.clock.now += 5 * MINUTE
    assert await start_and_end(scheduling, *replicas, batch=batch) == {"acme": 2}


async def test_an_operator_can_raise_the_quota_within_the_minute(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await declare(scheduling, 2)
    await scheduling.waiting(6, overlap="allow")
    replica = scheduling.replica()
    claim = await claim_batch(replica)
    assert (len(claim.started), claim.is_at_quota, claim.is_short) == (2, True, False)
    assert claim.seconds_to_next_minute == 60

    await scheduling.execute("""UPDATE tenantcron.tenant SET quotas = '{"starts_per_minute": 5}'""")

    assert len((await claim_batch(replica)).started) == 3


async def test_why_names_the_quota(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await declare(scheduling, 1)
    await scheduling.schedule(columns={"next_run_at": NOON})
    await scheduling.waiting(1, overlap="allow")
    await scheduling.claim()
    await scheduling.fire()

    async with scheduling.database.transaction() as connection:
        ref = ScheduleRef(TenantId("acme"), "nightly")
        lease = scheduling.settings.lease
        status = await read_schedule_status(connection, ref, lease, scheduling.clock())

    assert "waits-for-start-quota" in [reason.code for reason in explain(status)]


async def test_an_occurrence_that_may_not_wait_longer_is_skipped_with_the_quota_as_reason(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    await declare(scheduling, 1)
    await scheduling.waiting(3, overlap="allow", start_deadline=NOON)

    assert len((await scheduling.claim()).started) == 1
    assert not (await scheduling.claim()).skipped, "it may start in the next minute"
    scheduling.clock.now += MINUTE
    assert len((await scheduling.claim()).started) == 1
    scheduling.clock.now += MINUTE
    (skipped,) = (await scheduling.claim()).skipped
    assert (skipped.state, skipped.reason_code) == ("SKIPPED", "start_quota")
