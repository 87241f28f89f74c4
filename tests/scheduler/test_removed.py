"""A schedule that was removed: what ran then may end, and nothing of it starts any more."""

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
    """Take the cursors away, as the refresh does for schedules that left their manifest."""
    await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")


async def test_what_failed_after_its_schedule_was_removed_is_not_tried_again(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    (running,) = (await scheduling.claim()).started
    await remove_all(scheduling)

    await scheduling.finish(running, AttemptOutcome.FAILED, "no route to host")
    scheduling.clock.go_on(minutes=5)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("CANCELLED", REMOVED)]
    (attempt,) = await scheduling.rows("execution_attempt", "attempt")
    assert (attempt["attempt"], attempt["error"]) == (1, "no route to host")


async def test_what_succeeds_after_its_schedule_was_removed_has_succeeded(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    (running,) = (await scheduling.claim()).started
    await remove_all(scheduling)

    await scheduling.finish(running)

    assert await scheduling.states() == [("SUCCEEDED", None)]


async def test_what_was_given_back_after_its_schedule_was_removed_does_not_start(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting()
    claim = await scheduling.claim()
    await remove_all(scheduling)
    await release(scheduling.replica(), claim.started)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("SKIPPED", REMOVED)]


async def test_what_was_triggered_by_hand_ends_with_its_schedule_too(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(actor_source="manual")
    await remove_all(scheduling)

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("SKIPPED", REMOVED)]


async def test_the_others_are_not_kept_waiting(scheduling: Scheduling) -> None:
    await scheduling.waiting()
    await remove_all(scheduling)
    await scheduling.waiting(2)

    assert len(await scheduling.claim_all()) == 2
    assert await scheduling.count(state="SKIPPED", reason=REMOVED) == 1


async def test_a_retry_beside_the_removal_does_not_start(scheduling: Scheduling) -> None:
    """The retry has looked at the cursor, and whoever removes it cannot see what is retried."""
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
