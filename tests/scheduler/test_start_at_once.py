"""A replica that has nothing else to start fires and claims in one transaction."""

import pytest
from support.replicas import Works, at_work, due, made, until_idle, until_state
from support.scheduling import Scheduling

from tenantcron.scheduler.replica import claim_loop
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.start_at_once import FiredAndClaimed, fire_and_claim
from tenantcron.store.connection.errors import DatabaseAwayError
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.connection.prepared import FEW


async def start(scheduling: Scheduling, replica: Replica | None = None) -> FiredAndClaimed:
    """Fire and claim as of the next full hour."""
    scheduling.clock.advance(hours=1)
    return await fire_and_claim(replica or scheduling.replica(), 100)


async def test_an_occurrence_is_fired_and_starts_in_one_transaction(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()

    found = await start(scheduling)

    assert found.is_all_started
    assert await scheduling.states() == [("RUNNING", None)]
    assert await is_one_transaction(scheduling)


async def is_one_transaction(scheduling: Scheduling) -> bool:
    (row,) = await scheduling.query(
        "SELECT e.xmin::text = c.xmin::text AS is_same FROM tenantcron.execution_live AS e"
        " JOIN tenantcron.schedule_cursor AS c USING (schedule_id)"
    )
    return bool(row["is_same"])


async def test_a_replica_that_is_idle_starts_what_becomes_due(real: Scheduling) -> None:
    works = Works()
    async with at_work(real, works) as run:
        await until_idle(run)
        await due(real, "slow")
        await until_state(real, "RUNNING")
        assert await is_one_transaction(real)
        works.go.set()
        await until_state(real, "SUCCEEDED")
    assert len(works.calls) == 1


async def test_it_does_not_wait_for_the_claim_of_another_replica(scheduling: Scheduling) -> None:
    await scheduling.schedule()

    async with scheduling.database.transaction() as other:
        await take_lock(other, Lock.CLAIM)
        found = await start(scheduling)

    assert (found.executions, found.claim, found.is_all_started) == (1, None, False)
    assert await scheduling.states() == [("PENDING", None)]


async def test_limits_hold_and_nothing_is_fired_twice(scheduling: Scheduling) -> None:
    await scheduling.limit(2)
    await scheduling.schedules(3, overlap="queue")

    found = await start(scheduling)

    assert (found.executions, found.claim) == (3, None)
    assert await scheduling.count(state="PENDING") == 3
    assert len((await scheduling.claim()).started) == 2


async def test_the_quota_of_starts_holds(scheduling: Scheduling) -> None:
    await scheduling.execute("""UPDATE tenantcron.limits SET quotas = '{"starts_per_minute": 1}'""")
    await scheduling.schedules(2, overlap="queue")

    found = await start(scheduling)

    assert (found.executions, found.claim) == (2, None)
    assert len((await scheduling.claim()).started) == 1


async def test_of_a_large_batch_only_the_first_few_start_at_once(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await scheduling.schedules(FEW + 1)

    found = await start(scheduling)

    assert (found.executions, found.fired.more) == (FEW, True)
    assert await scheduling.count(state="RUNNING") == FEW


async def test_an_occurrence_with_a_later_start_is_left_to_the_claim_loop(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(spread="30m")

    found = await start(scheduling)

    assert (found.executions, found.claim, found.is_all_started) == (1, None, False)


async def test_what_does_not_only_start_is_left_to_the_claim_loop(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")

    found = await start(scheduling)

    assert (found.executions, found.claim) == (1, None)
    assert await scheduling.states() == [("PENDING", None)]


async def test_a_running_execution_is_replaced_by_the_claim_loop(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="cancel_running")
    assert (await start(scheduling)).is_all_started

    found = await start(scheduling)

    assert (found.executions, found.claim) == (1, None)
    assert await scheduling.count(state="RUNNING") == 1


async def test_a_row_that_the_claim_cannot_read_does_not_stop_the_firing(
    scheduling: Scheduling,
) -> None:
    """The claim fails alone, as it would in its own transaction."""
    await scheduling.execute(
        """UPDATE tenantcron.limits SET quotas = '{"starts_per_minute": "x"}'"""
    )
    await scheduling.schedule()

    found = await start(scheduling)

    assert (found.executions, found.claim) == (1, None)
    assert await scheduling.states() == [("PENDING", None)]


@pytest.mark.parametrize("known", ["is_scarce", "is_at_quota"])
async def test_nothing_starts_at_once_while_the_order_of_starts_matters(
    real: Scheduling, known: str
) -> None:
    works = Works()
    async with at_work(real, works) as run:
        setattr(run._replica.demand, known, True)
        assert await run._claiming.fire_and_start() is None


async def test_an_execution_of_another_service_is_left_to_it(scheduling: Scheduling) -> None:
    await scheduling.schedule("nightly")

    found = await start(scheduling, scheduling.replica("other", "weekly"))

    assert (found.executions, found.is_all_started) == (1, False)
    assert await scheduling.states() == [("PENDING", None)]


async def test_the_claim_loop_is_woken_if_the_end_is_unknown(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> FiredAndClaimed:
        raise DatabaseAwayError("the response to the commit was lost")

    monkeypatch.setattr(claim_loop, "fire_and_claim", lost)
    async with made(real, Works()) as run:
        run._claiming._is_idle = True
        with pytest.raises(DatabaseAwayError):
            await run._claiming.fire_and_start()
        await run._signals.work_pending.wait(0)
        assert run._signals.work_pending.was_set
