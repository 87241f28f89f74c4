"""Leases: renewed while a handler runs; one replica recovers an expired lease."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from support.handlers import NoDatabase
from support.leases import keep_up
from support.patience import PATIENCE
from support.scheduling import NOON, Scheduling

from tenantcron.provider.static_settings import DEFAULTS as DEFINITION
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.steps.leases import renew
from tenantcron.schedules.settings import read_settings
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, SourceLocation
from tenantcron.targets.python.registry import Handlers

LEASE = timedelta(seconds=60)


@dataclass
class AtWork:
    """An executor whose handlers run until the test ends them."""

    begun: asyncio.Queue[UUID] = field(default_factory=asyncio.Queue)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        async def work(execution: Execution) -> None:
            self.begun.put_nowait(execution.id)
            await self.end.wait()

        place = SourceLocation("m", "f", "x", 1)
        self.executor = Executor(
            Handlers.of([Handler("work", work, is_async=True, place=place)]),
            lambda _: NoDatabase(),
        )

    async def start(self, claimed: Claimed) -> asyncio.Task[Attempt]:
        task = asyncio.create_task(self.executor.run(claimed, read_settings(DEFINITION)))
        async with asyncio.timeout(PATIENCE):
            assert await self.begun.get() == claimed.id
        return task


async def started(scheduling: Scheduling, **columns: Any) -> Claimed:
    await scheduling.waiting(1, **columns)
    (claimed,) = (await scheduling.claim()).started
    return claimed


async def test_a_heartbeat_renews_the_lease_and_reports_the_replica(
    scheduling: Scheduling,
) -> None:
    work, claimed = AtWork(), await started(scheduling)
    running = await work.start(claimed)
    scheduling.clock.advance(seconds=50)

    await keep_up(scheduling.replica(), work.executor)

    (row,) = await scheduling.rows()
    assert row["lease_until"] == NOON + timedelta(seconds=50) + LEASE
    (worker,) = await scheduling.rows("worker", "id")
    assert (worker["id"], worker["running"], worker["draining"]) == ("one", 1, False)
    scheduling.clock.advance(seconds=59)
    assert await recover_lost(scheduling.replica("two")) == 0
    work.end.set()
    assert (await running).outcome is AttemptOutcome.SUCCEEDED


async def test_a_heartbeat_stops_cancelled_attempts_with_the_reason(scheduling: Scheduling) -> None:
    work, claimed = AtWork(), await started(scheduling)
    running = await work.start(claimed)
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'by maria'"
    )

    await keep_up(scheduling.replica(), work.executor)

    attempt = await running
    assert attempt.outcome is AttemptOutcome.CANCELLED
    assert (attempt.error or "").startswith("by maria")


async def test_a_heartbeat_stops_attempts_that_another_replica_took_over(
    scheduling: Scheduling,
) -> None:
    work, claimed = AtWork(), await started(scheduling)
    running = await work.start(claimed)
    scheduling.clock.advance(seconds=61)
    assert await recover_lost(scheduling.replica("two")) == 1

    await keep_up(scheduling.replica(), work.executor)

    attempt = await running
    assert attempt.outcome is AttemptOutcome.LOST
    assert (await scheduling.finish(claimed, attempt.outcome)).refused == {claimed.lease}


async def test_a_heartbeat_does_not_stop_a_new_claim_of_the_same_execution(
    scheduling: Scheduling,
) -> None:
    """The same execution runs twice in one process. Only the lost claim is stopped."""
    work, claimed = AtWork(), await started(scheduling)
    old = await work.start(claimed)
    scheduling.clock.advance(seconds=61)
    await recover_lost(scheduling.replica())
    (again,) = (await scheduling.claim()).started
    new = await work.start(again)

    await keep_up(scheduling.replica(), work.executor)

    async with asyncio.timeout(PATIENCE):
        lost = await old
    assert lost.outcome is AttemptOutcome.LOST
    assert not new.done()
    work.end.set()
    assert not (await scheduling.finish(again, (await new).outcome)).refused


async def test_a_lease_is_valid_to_its_last_moment(scheduling: Scheduling) -> None:
    await started(scheduling)
    scheduling.clock.advance(seconds=60)
    assert await recover_lost(scheduling.replica("two")) == 0
    scheduling.clock.advance(seconds=0.001)
    assert await recover_lost(scheduling.replica("two")) == 1


async def test_a_lost_execution_is_recorded_and_starts_again_at_once(
    scheduling: Scheduling,
) -> None:
    claimed = await started(scheduling)
    scheduling.clock.advance(seconds=61)

    await recover_lost(scheduling.replica("two"))

    assert await scheduling.states() == [("RETRYING", "worker lost")]
    (attempt,) = await scheduling.rows("execution_attempt", "attempt")
    assert (attempt["outcome"], attempt["worker_id"]) == ("LOST", "one")
    (again,) = (await scheduling.claim(scheduling.replica("two"))).started
    assert (again.id, again.attempt) == (claimed.id, 2)


async def test_a_cancelled_execution_whose_worker_is_lost_ends_cancelled(
    scheduling: Scheduling,
) -> None:
    await started(scheduling)
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'by maria'"
    )
    scheduling.clock.advance(seconds=61)

    await recover_lost(scheduling.replica("two"))

    ((state, _),) = await scheduling.states()
    assert state == "CANCELLED"


async def test_concurrent_replicas_recover_each_execution_once(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(30)
    await scheduling.claim_all()
    scheduling.clock.advance(seconds=61)

    recovered = await asyncio.gather(
        *(recover_lost(scheduling.replica(f"r{number}")) for number in range(4))
    )

    assert sum(recovered) == 30
    assert await scheduling.count(state="RETRYING", attempt=1) == 30
    assert len(await scheduling.rows("execution_attempt", "1")) == 30


async def test_a_concurrent_result_and_recovery_count_once(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(20)
    claimed = await scheduling.claim_all()
    scheduling.clock.advance(seconds=61)

    # As their loops do: a row that moves to another partition meanwhile is a conflict.
    finished, recovered = await asyncio.gather(
        asyncio.gather(
            *(retry_conflicts(partial(scheduling.finish, attempt)) for attempt in claimed)
        ),
        retry_conflicts(partial(recover_lost, scheduling.replica("two"))),
    )

    counted = sum(not result.refused for result in finished)
    assert counted + recovered == 20
    assert len(await scheduling.rows("execution_attempt", "1")) == recovered
    assert await scheduling.count(state="SUCCEEDED") == counted


async def test_an_execution_of_a_deleted_tenant_is_recovered(scheduling: Scheduling) -> None:
    await started(scheduling)
    await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")
    await scheduling.execute("DELETE FROM tenantcron.tenant")
    scheduling.clock.advance(seconds=61)

    assert await recover_lost(scheduling.replica("two")) == 1


async def test_a_heartbeat_keeps_leases_whose_rows_are_locked(
    scheduling: Scheduling,
) -> None:
    work, claimed = AtWork(), await started(scheduling)
    running = await work.start(claimed)
    async with scheduling.database.transaction() as connection:
        await connection.exec_driver_sql("SELECT FROM tenantcron.execution FOR UPDATE")

        await keep_up(scheduling.replica(), work.executor)

    work.end.set()
    assert (await running).outcome is AttemptOutcome.SUCCEEDED


async def test_an_execution_that_cannot_end_does_not_block_the_recovery_of_others(
    scheduling: Scheduling,
) -> None:
    """Its history partition is missing, so the database rejects its final row."""
    november = NOON - timedelta(days=20)
    await scheduling.waiting(1, scheduled_for=november)
    await scheduling.waiting(1)
    assert len((await scheduling.claim()).started) == 2
    await scheduling.execute("UPDATE tenantcron.execution SET suspicion = 4")
    await scheduling.execute("DROP TABLE tenantcron.execution_past_2026_11")
    scheduling.clock.advance(seconds=61)

    assert await recover_lost(scheduling.replica("two")) == 1
    killed = ("DEAD", "killed its worker 3 times")
    assert await scheduling.states() == [("RUNNING", None), killed]


async def test_the_lease_of_an_unwritten_result_is_renewed(
    scheduling: Scheduling,
) -> None:
    claimed = await started(scheduling)
    scheduling.clock.advance(seconds=50)

    await renew(scheduling.replica(), AtWork().executor, [claimed])

    (row,) = await scheduling.rows()
    assert row["lease_until"] == NOON + timedelta(seconds=50) + LEASE


async def test_a_blocked_replica_renews_claims_whose_response_it_has_not_read(
    scheduling: Scheduling,
) -> None:
    """The blocked loop has not read the response to its claim."""
    await started(scheduling)
    scheduling.clock.advance(seconds=50)

    await renew(scheduling.replica(), AtWork().executor)
    (before,) = await scheduling.rows()
    await renew(scheduling.replica("two"), AtWork().executor, is_blocked=True)
    (others,) = await scheduling.rows()
    await renew(scheduling.replica(), AtWork().executor, is_blocked=True)
    (after,) = await scheduling.rows()

    assert before["lease_until"] == others["lease_until"] == NOON + LEASE
    assert after["lease_until"] == NOON + timedelta(seconds=50) + LEASE
