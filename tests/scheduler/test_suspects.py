"""Suspects: executions lost with their worker are isolated, and only killers are blamed."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from support.scheduling import NOON, Scheduling
from support.suspects import LONGER_THAN_A_LEASE, Supervised

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.claim import release
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.suspects import ALONE, TOGETHER

KILLED = ("DEAD", "killed its worker 3 times")
TENANTS = ("acme", "beta", "cosy", "dune", "echo")


async def lose_running(scheduling: Scheduling) -> list[Claimed]:
    started = await scheduling.claim_all(scheduling.replica(f"lost at {scheduling.clock.now}"))
    scheduling.clock.advance(seconds=LONGER_THAN_A_LEASE)
    assert await recover_lost(scheduling.replica("other")) == len(started)
    return started


async def suspects(scheduling: Scheduling, number: int, suspicion: int, **columns: Any) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(
        number,
        state="RETRYING",
        attempt=suspicion,
        attempts_allowed=3 + suspicion,
        losses=suspicion,
        suspicion=suspicion,
        **columns,
    )


async def test_a_loss_uses_up_no_attempt(scheduling: Scheduling) -> None:
    await scheduling.waiting(1, attempts_allowed=1)

    await lose_running(scheduling)

    (row,) = await scheduling.rows()
    assert (row["state"], row["reason"]) == ("RETRYING", "worker lost")
    assert (row["attempt"], row["attempts_allowed"], row["losses"]) == (1, 2, 1)


async def test_a_lost_execution_keeps_its_place_in_the_queue(scheduling: Scheduling) -> None:
    await scheduling.waiting(1, schedule_name="first")
    await lose_running(scheduling)
    await scheduling.limit(1)
    await scheduling.waiting(3, not_before=NOON.replace(second=30))

    (started,) = (await scheduling.claim()).started

    assert (started.schedule_name, started.attempt) == ("first", 2)


async def test_executions_lost_once_run_a_few_at_a_time_on_each_replica(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(2 * TOGETHER + 4)
    assert len(await lose_running(scheduling)) == 2 * TOGETHER + 4

    started = [await scheduling.claim_all(scheduling.replica(name)) for name in ("two", "three")]

    assert [len(claimed) for claimed in started] == [TOGETHER, TOGETHER]
    await scheduling.finish(started[0][0])
    assert len(await scheduling.claim_all(scheduling.replica("two"))) == 1


async def test_an_execution_lost_twice_is_the_only_suspect_of_its_replica(
    scheduling: Scheduling,
) -> None:
    await suspects(scheduling, 3, ALONE)
    await suspects(scheduling, 3, 1, priority=3)

    first, second, third = [
        await scheduling.claim_all(scheduling.replica(name)) for name in ("one", "two", "three")
    ]

    assert [
        [execution.suspicion for execution in started] for started in (first, second, third)
    ] == [
        [ALONE],
        [ALONE],
        [ALONE],
    ]
    await scheduling.finish(first[0])
    started = await scheduling.claim_all(scheduling.replica("one"))
    assert [execution.suspicion for execution in started] == [1, 1, 1]


async def test_a_replica_with_any_suspect_does_not_start_one_that_must_be_alone(
    scheduling: Scheduling,
) -> None:
    await suspects(scheduling, 1, 1)
    await scheduling.claim_all()
    await suspects(scheduling, 1, ALONE)

    assert await scheduling.claim_all() == []
    assert len(await scheduling.claim_all(scheduling.replica("two"))) == 1


async def test_other_executions_run_beside_suspects_without_waiting(
    scheduling: Scheduling,
) -> None:
    await suspects(scheduling, 6, ALONE, priority=0)
    await scheduling.waiting(5, not_before=NOON)
    await scheduling.limit(100, per_tenant=5)

    started = await scheduling.claim_all()

    assert Counter(execution.suspicion for execution in started) == {ALONE: 1, 0: 4}


async def test_an_attempt_with_a_result_clears_a_suspect_and_keeps_its_losses(
    scheduling: Scheduling,
) -> None:
    await suspects(scheduling, 1, ALONE)
    (started,) = await scheduling.claim_all()

    await scheduling.finish(started, AttemptOutcome.FAILED)

    (row,) = await scheduling.rows()
    assert (row["state"], row["losses"], row["suspicion"]) == ("RETRYING", ALONE, 0)


async def test_the_only_suspect_of_lost_workers_is_dead_and_counts_as_a_failure(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=1)
    (cursor,) = await scheduling.rows("schedule_cursor", "schedule_id")
    definition_id = cursor["definition_id"]
    await scheduling.waiting(1, schedule_id=schedule_id, definition_id=definition_id)

    for _ in range(ALONE + 2):
        await lose_running(scheduling)
        assert await scheduling.states() == [("RETRYING", "worker lost")]
    await lose_running(scheduling)

    assert await scheduling.states() == [KILLED]
    cursor = await scheduling.cursor(schedule_id)
    assert (cursor["consecutive_failures"], cursor["paused_reason"]) == (
        1,
        "auto:consecutive_failures",
    )


async def test_a_target_is_never_a_suspect(scheduling: Scheduling) -> None:
    http = {"url": "https://a.test/", "method": "POST", "headers": {}, "auth": "none"}
    await scheduling.schedule(target={"http": http})
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    for losses in range(1, 9):
        await lose_running(scheduling)
        (row,) = await scheduling.rows()
        assert (row["state"], row["losses"], row["suspicion"]) == ("RETRYING", losses, 0)


async def test_a_released_execution_keeps_its_suspicion(
    scheduling: Scheduling,
) -> None:
    await suspects(scheduling, 1, 4)
    started = await scheduling.claim_all()

    await release(scheduling.replica(), started)

    (row,) = await scheduling.rows()
    assert (row["suspicion"], row["losses"], row["attempt"]) == (4, 4, 4)


async def test_concurrent_recoveries_of_a_lost_worker_count_each_loss_once(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1000, per_tenant=1000)
    await scheduling.waiting(500)
    await scheduling.claim_all()
    scheduling.clock.advance(seconds=LONGER_THAN_A_LEASE)

    names = ("two", "three", "four")
    while sum(await asyncio.gather(*(recover_lost(scheduling.replica(name)) for name in names))):
        pass

    lost = await scheduling.count(state="RETRYING", losses=1, suspicion=1, attempts_allowed=4)
    assert lost == 500


class Poison:
    """Some executions kill their worker, the others succeed."""

    def __init__(self, killers: set[str], every: int = 1) -> None:
        self.killers, self.every = killers, every
        self.tries = Counter[UUID]()

    def __call__(self, claimed: Claimed) -> AttemptOutcome | None:
        self.tries[claimed.id] += 1
        if claimed.schedule_name not in self.killers:
            return AttemptOutcome.SUCCEEDED
        is_kill = self.tries[claimed.id] % self.every == 1 % self.every
        return None if is_kill else AttemptOutcome.FAILED


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("killers", [{"one"}, {"one", "two"}])
async def test_only_executions_that_kill_their_worker_are_dead(
    scheduling: Scheduling, attempts: int, killers: set[str]
) -> None:
    await scheduling.limit(100)
    for tenant in TENANTS:
        await scheduling.waiting(4, tenant=tenant, attempts_allowed=attempts)
    for killer in killers:
        await scheduling.waiting(
            1, tenant="zero", schedule_name=killer, attempts_allowed=attempts, priority=0
        )
    supervised = Supervised(scheduling, Poison(killers))

    await supervised.run()

    states = Counter((row["schedule_name"], row["state"]) for row in await scheduling.rows())
    assert states == {("work", "SUCCEEDED"): 20, **{(killer, "DEAD"): 1 for killer in killers}}
    assert supervised.kills <= len(killers) * (ALONE + 3)
    assert all(len(batch) == 1 or set(batch) <= {1} for batch in supervised.together)


async def test_a_killer_that_fails_every_second_time_ends_with_its_attempts(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    for tenant in TENANTS:
        await scheduling.waiting(4, tenant=tenant, attempts_allowed=1)
    await scheduling.waiting(1, tenant="zero", schedule_name="one", attempts_allowed=3, priority=0)
    supervised = Supervised(scheduling, Poison({"one"}, every=2))

    await supervised.run()

    states = Counter((row["schedule_name"], row["state"]) for row in await scheduling.rows())
    assert states == {("work", "SUCCEEDED"): 20, ("one", "DEAD"): 1}
    assert supervised.kills == 3


async def test_a_killer_does_not_block_other_executions_of_a_tenant_with_one_slot(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    await scheduling.tenant("zero", max_concurrent=1)
    await scheduling.waiting(1, tenant="zero", schedule_name="one", attempts_allowed=1, priority=0)
    await scheduling.waiting(5, tenant="zero", attempts_allowed=1)

    await Supervised(scheduling, Poison({"one"})).run()

    states = Counter((row["schedule_name"], row["state"]) for row in await scheduling.rows())
    assert states == {("work", "SUCCEEDED"): 5, ("one", "DEAD"): 1}
