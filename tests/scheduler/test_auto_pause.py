"""Auto-pause: too many consecutive failures pause a schedule, and the pause is recorded."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

from support.scheduling import NOON, Row, Scheduling

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.steps.claiming import Claimed

FAILED = AttemptOutcome.FAILED
REASON = "auto:consecutive_failures"


async def running(scheduling: Scheduling, schedule_id: UUID, count: int = 1) -> list[Claimed]:
    await scheduling.waiting(count, schedule_id=schedule_id, overlap="allow")
    return await _with_definition(scheduling, schedule_id)


async def _with_definition(scheduling: Scheduling, schedule_id: UUID) -> list[Claimed]:
    """Give pending executions the definition of the schedule, and start them."""
    await scheduling.execute(
        "UPDATE tenantcron.execution AS e SET definition_id = c.definition_id"
        " FROM tenantcron.schedule_cursor AS c"
        " WHERE c.schedule_id = e.schedule_id AND e.schedule_id = :id",
        id=schedule_id,
    )
    return list((await scheduling.claim()).started)


async def pauses(scheduling: Scheduling) -> list[Row]:
    return await scheduling.query(
        "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'pause'"
    )


async def fail(scheduling: Scheduling, *claimed: Claimed) -> tuple[UUID, ...]:
    attempts = [Attempt(execution, FAILED, "broke", final=True) for execution in claimed]
    return (await finish_batch(scheduling.replica(), attempts)).paused


async def test_the_failure_that_reaches_the_limit_pauses_the_schedule(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    for number in (1, 2):
        assert await fail(scheduling, *await running(scheduling, schedule_id)) == ()
        cursor = await scheduling.cursor(schedule_id)
        assert (cursor["consecutive_failures"], cursor["paused_at"]) == (number, None)

    assert await fail(scheduling, *await running(scheduling, schedule_id)) == (schedule_id,)

    cursor = await scheduling.cursor(schedule_id)
    assert cursor["consecutive_failures"] == 3
    assert (cursor["paused_at"], cursor["paused_until"]) == (NOON, None)
    assert (cursor["paused_by"], cursor["paused_reason"]) == ("system:scheduler:scheduler", REASON)


async def test_the_audit_record_names_the_execution_that_reached_the_limit(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    for _ in range(2):
        await fail(scheduling, *await running(scheduling, schedule_id))
    (last,) = await running(scheduling, schedule_id)
    await fail(scheduling, last)
    (record,) = await pauses(scheduling)
    assert record["correlation_id"] == last.id


async def test_pauses_by_results_of_one_batch_share_a_correlation_id(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    last = []
    for name in ("first", "second"):
        schedule_id = await scheduling.schedule(name, auto_pause_after=3)
        last += await running(scheduling, schedule_id, 3)
    await fail(scheduling, *last)
    first, second = await pauses(scheduling)
    assert first["correlation_id"] == second["correlation_id"] is not None


async def test_an_auto_pause_is_recorded_with_the_scheduler_as_actor(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule("nightly", auto_pause_after=3)

    await fail(scheduling, *await running(scheduling, schedule_id, 3))

    (record,) = await pauses(scheduling)
    assert record["entity_id"] == "acme/nightly"
    assert (record["operation"], record["changed_by"]) == ("pause", "system:scheduler:scheduler")
    assert (record["actor_type"], record["authenticated"]) == ("scheduler", False)
    assert record["before"] is None
    assert isinstance(record["after"], dict)
    assert record["after"]["reason"] == REASON


async def test_each_failure_of_a_batch_counts(scheduling: Scheduling) -> None:
    first = await scheduling.schedule("first", auto_pause_after=5)
    second = await scheduling.schedule("second", auto_pause_after=3)
    claimed = await running(scheduling, first, 2) + await running(scheduling, second, 3)

    assert await fail(scheduling, *claimed) == (second,)

    assert (await scheduling.cursor(first))["consecutive_failures"] == 2
    assert (await scheduling.cursor(second))["consecutive_failures"] == 3


async def test_a_success_resets_the_count(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    await fail(scheduling, *await running(scheduling, schedule_id, 2))

    (claimed,) = await running(scheduling, schedule_id)
    await scheduling.finish(claimed)
    assert (await scheduling.cursor(schedule_id))["consecutive_failures"] == 0

    assert await fail(scheduling, *await running(scheduling, schedule_id, 2)) == ()
    assert (await scheduling.cursor(schedule_id))["paused_at"] is None


async def test_attempts_that_are_retried_do_not_count(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    for execution in await running(scheduling, schedule_id, 4):
        await scheduling.finish(execution, FAILED, "again")

    assert (await scheduling.cursor(schedule_id))["consecutive_failures"] == 0


async def test_zero_disables_the_auto_pause(scheduling: Scheduling) -> None:
    await scheduling.limit(20)
    schedule_id = await scheduling.schedule(auto_pause_after=0)

    assert await fail(scheduling, *await running(scheduling, schedule_id, 20)) == ()

    cursor = await scheduling.cursor(schedule_id)
    assert (cursor["consecutive_failures"], cursor["paused_at"]) == (20, None)


async def test_pending_executions_of_an_auto_paused_schedule_stay_pending(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(3)
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    claimed = await running(scheduling, schedule_id, 3)
    await scheduling.waiting(1, schedule_id=schedule_id, overlap="queue")
    await scheduling.waiting(1, schedule_id=schedule_id, state="RETRYING", attempt=1)
    await scheduling.waiting(1, schedule_id=schedule_id, actor_source="manual")

    await fail(scheduling, *claimed)

    assert (await scheduling.cursor(schedule_id))["paused_at"] == NOON
    states = Counter(
        row["state"] for row in await scheduling.rows() if row["schedule_id"] == schedule_id
    )
    assert states == {"DEAD": 3, "PENDING": 2, "RETRYING": 1}


async def test_an_auto_pause_does_not_replace_a_pause_in_force(scheduling: Scheduling) -> None:
    until = NOON + timedelta(days=1)
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    claimed = await running(scheduling, schedule_id, 3)
    pause = {"paused_by": "maria", "paused_reason": "partner is down", "paused_until": until}
    await scheduling.set_cursor(schedule_id, paused_at=NOON, **pause)

    assert await fail(scheduling, *claimed) == ()

    cursor = await scheduling.cursor(schedule_id)
    assert {name: cursor[name] for name in pause} == pause
    assert cursor["consecutive_failures"] == 3


async def test_an_auto_pause_replaces_an_expired_pause(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    claimed = await running(scheduling, schedule_id, 3)
    await scheduling.set_cursor(
        schedule_id, paused_at=NOON, paused_by="maria", paused_reason="x", paused_until=NOON
    )

    assert await fail(scheduling, *claimed) == (schedule_id,)

    assert (await scheduling.cursor(schedule_id))["paused_reason"] == REASON


async def test_further_failures_of_a_paused_schedule_set_no_second_pause(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule(auto_pause_after=3)
    *first, last = await running(scheduling, schedule_id, 4)
    await fail(scheduling, *first)
    scheduling.clock.advance(minutes=1)

    assert await fail(scheduling, last) == ()

    cursor = await scheduling.cursor(schedule_id)
    assert (cursor["consecutive_failures"], cursor["paused_at"]) == (4, NOON)
    assert len(await pauses(scheduling)) == 1
