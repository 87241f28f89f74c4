"""A removed schedule: its running executions may end, and no more start."""

from sqlalchemy import text
from support.scheduling import Scheduling

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.claim import release
from tenantcron.store.rows.executions import State

MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"))
REMOVED = "schedule removed"


async def remove_all(scheduling: Scheduling) -> None:
    """Remove the cursors, as a refresh does for schedules that were removed from a manifest."""
    await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")


async def test_a_failure_after_the_schedule_was_removed_is_not_retried(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    (running,) = (await scheduling.claim()).started
    await remove_all(scheduling)

    await scheduling.finish(running, AttemptOutcome.FAILED, "no route to host")
    scheduling.clock.advance(minutes=5)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("CANCELLED", REMOVED)]
    (attempt,) = await scheduling.rows("execution_attempt", "attempt")
    assert (attempt["attempt"], attempt["error"]) == (1, "no route to host")


async def test_a_success_after_the_schedule_was_removed_is_a_success(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    (running,) = (await scheduling.claim()).started
    await remove_all(scheduling)

    await scheduling.finish(running)

    assert await scheduling.states() == [("SUCCEEDED", None)]


async def test_an_execution_released_after_its_schedule_was_removed_does_not_start(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    claim = await scheduling.claim()
    await remove_all(scheduling)
    await release(scheduling.replica(), claim.started)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("SKIPPED", REMOVED)]


async def test_a_manual_trigger_ends_with_its_schedule(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(actor_source="manual")
    await remove_all(scheduling)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("SKIPPED", REMOVED)]


async def test_removed_schedules_do_not_delay_others(scheduling: Scheduling) -> None:
    await scheduling.waiting()
    await remove_all(scheduling)
    await scheduling.waiting(2)

    assert len(await scheduling.claim_all()) == 2
    assert await scheduling.count(state="SKIPPED", reason=REMOVED) == 1


async def test_a_retry_concurrent_with_the_removal_does_not_start(scheduling: Scheduling) -> None:
    """The retry has read the cursor, and the removal cannot see the uncommitted retry."""
    await scheduling.waiting(attempts_allowed=1)
    (running,) = (await scheduling.claim()).started
    await scheduling.finish(running, AttemptOutcome.FAILED, "no route to host")
    schedule = {"name": str(running.schedule_id)}
    await scheduling.execute("UPDATE tenantcron.execution SET schedule_name = :name", **schedule)
    operator = Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)

    async with scheduling.database.transaction() as removal:
        await removal.execute(text("DELETE FROM tenantcron.schedule_cursor"))
        assert (await operator.retry(str(running.id))).state is State.PENDING

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("CANCELLED", REMOVED)]
