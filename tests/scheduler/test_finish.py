"""Finish: only the holder of the lease can write a result."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.finish import finish_batch, recover_lost
from tenantcron.scheduler.steps.results import Results
from tenantcron.store.steps import finishing
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.responses import ServiceResponse

FAILED, SUCCEEDED = AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED


async def running(scheduling: Scheduling, **definition: object) -> Claimed:
    """Return an execution that has just started."""
    await scheduling.schedule(**definition)  # type: ignore[arg-type] # as given
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    (claimed,) = (await scheduling.claim()).started
    return claimed


async def test_a_success_ends_the_execution_and_records_the_attempt(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)
    ended_at = scheduling.clock.advance(seconds=3)

    finished = await scheduling.finish(claimed)

    assert finished.refused == frozenset()
    (row,) = await scheduling.rows()
    assert (row["state"], row["reason"], row["finished_at"]) == ("SUCCEEDED", None, ended_at)
    assert (row["lease_token"], row["lease_until"], row["worker_id"]) == (None, None, "one")
    (attempt,) = await scheduling.attempts(claimed)
    assert (attempt.attempt, attempt.worker_id) == (1, "one")
    assert (attempt.outcome, attempt.error) == ("SUCCEEDED", None)
    assert (attempt.started_at, attempt.finished_at) == (claimed.started_at, ended_at)
    # The row of the execution has everything, so there is no attempt row.
    assert await scheduling.rows("execution_attempt", "attempt") == []


async def test_results_of_all_kinds_are_written_in_one_batch(scheduling: Scheduling) -> None:
    await scheduling.limit(20)
    await scheduling.waiting(6)
    claimed = (await scheduling.claim()).started
    answer = ServiceResponse(200, "done")
    attempts = [
        Attempt(claimed[0], SUCCEEDED),
        Attempt(claimed[1], FAILED, "no"),
        Attempt(claimed[2], SUCCEEDED, answer=answer),
        Attempt(claimed[3], SUCCEEDED),
        Attempt(claimed[4], FAILED, "never"),
        Attempt(claimed[5], SUCCEEDED),
    ]

    await finish_batch(scheduling.replica(), attempts)

    recorded = [await scheduling.attempts(execution) for execution in claimed]
    assert [
        (attempt.outcome, attempt.error, attempt.http_status, attempt.answer)
        for (attempt,) in recorded
    ] == [
        ("SUCCEEDED", None, None, None),
        ("FAILED", "no", None, None),
        ("SUCCEEDED", None, 200, "done"),
        ("SUCCEEDED", None, None, None),
        ("FAILED", "never", None, None),
        ("SUCCEEDED", None, None, None),
    ]


async def test_failures_are_retried_until_the_attempts_are_used_up(
    scheduling: Scheduling,
) -> None:
    claimed = await running(scheduling)
    seen = []
    for number in (1, 2, 3):
        await scheduling.finish(claimed, FAILED, f"no. {number}\nTraceback …")
        seen += await scheduling.states()
        (row,) = await scheduling.rows()
        if number < 3:
            assert row["finished_at"] is None
            assert row["start_deadline"] is None
            assert (await scheduling.cursor(claimed.schedule_id))["consecutive_failures"] == 0
            scheduling.clock.advance(minutes=1)
            (claimed,) = (await scheduling.claim()).started
            assert claimed.attempt == number + 1
            seen += await scheduling.states()

    assert seen == [
        ("RETRYING", "no. 1"),
        ("RUNNING", None),
        ("RETRYING", "no. 2"),
        ("RUNNING", None),
        ("DEAD", "no. 3"),
    ]
    attempts = await scheduling.rows("execution_attempt", "attempt")
    assert [(attempt["attempt"], attempt["outcome"], attempt["error"]) for attempt in attempts] == [
        (number, "FAILED", f"no. {number}\nTraceback …") for number in (1, 2, 3)
    ]
    assert (await scheduling.cursor(claimed.schedule_id))["consecutive_failures"] == 1
    assert (await scheduling.claim()).started == ()


async def test_a_retry_does_not_start_before_its_time(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)

    await scheduling.finish(claimed, FAILED, "later", retry_after=timedelta(seconds=30))

    (row,) = await scheduling.rows()
    assert row["not_before"] == scheduling.clock.now + timedelta(seconds=30)
    scheduling.clock.advance(seconds=29)
    assert (await scheduling.claim()).started == ()
    scheduling.clock.advance(seconds=1)
    assert len((await scheduling.claim()).started) == 1


async def test_a_final_failure_is_dead_at_once(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)

    await scheduling.finish(claimed, FAILED, "never", final=True)

    assert await scheduling.states() == [("DEAD", "never")]


async def test_a_cancelled_execution_does_not_count_as_a_failure(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)

    await scheduling.finish(claimed, AttemptOutcome.CANCELLED, "by maria")

    assert await scheduling.states() == [("CANCELLED", "by maria")]
    assert (await scheduling.cursor(claimed.schedule_id))["consecutive_failures"] == 0


@pytest.mark.parametrize("outcome", [FAILED, AttemptOutcome.INTERRUPTED, AttemptOutcome.TIMED_OUT])
async def test_a_failure_after_a_cancel_request_is_not_retried(
    scheduling: Scheduling, outcome: AttemptOutcome
) -> None:
    claimed = await running(scheduling)
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'by maria'"
    )

    await scheduling.finish(claimed, outcome, "broke")

    assert await scheduling.states() == [("CANCELLED", "by maria")]
    assert (await scheduling.rows())[0]["finished_at"] is not None
    (attempt,) = await scheduling.rows("execution_attempt", "attempt")
    assert (attempt["outcome"], attempt["error"]) == (outcome, "broke")
    assert (await scheduling.claim()).started == ()


async def test_a_failure_after_a_cancel_request_is_logged_as_cancelled(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2)
    asked, other = (await scheduling.claim()).started
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'by maria'"
        " WHERE id = :id",
        id=asked.id,
    )

    with capture_logs() as logs:
        await finish_batch(
            scheduling.replica(), [Attempt(asked, FAILED, "broke"), Attempt(other, FAILED, "broke")]
        )

    assert [(line["event"], line["log_level"], line["reason"]) for line in logs] == [
        ("execution_cancelled", "info", "by maria"),
        ("execution_retrying", "warning", "broke"),
    ]


async def test_a_result_counts_once(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)
    await scheduling.finish(claimed)
    before = await scheduling.rows(), await scheduling.rows("execution_attempt", "1")

    again = await scheduling.finish(claimed, FAILED, "no")

    assert again.refused == {claimed.lease}
    assert (await scheduling.rows(), await scheduling.rows("execution_attempt", "1")) == before


async def test_a_result_with_another_token_changes_nothing(scheduling: Scheduling) -> None:
    claimed = await running(scheduling)
    before = await scheduling.rows()

    other = claimed._replace(lease_token=uuid4())
    finished = await scheduling.finish(other)

    assert finished.refused == {other.lease}
    assert await scheduling.rows() == before
    assert await scheduling.rows("execution_attempt", "1") == []


@pytest.mark.parametrize("again", [True, False], ids=["claimed again", "waiting again"])
@pytest.mark.parametrize("outcome", [SUCCEEDED, FAILED])
async def test_a_result_after_the_lease_was_taken_changes_nothing(
    scheduling: Scheduling, outcome: AttemptOutcome, *, again: bool
) -> None:
    stalled = await running(scheduling)
    scheduling.clock.advance(seconds=61)
    assert await recover_lost(scheduling.replica("two")) == 1
    if again:
        assert len((await scheduling.claim(scheduling.replica("two"))).started) == 1
    before = await scheduling.rows(), await scheduling.rows("execution_attempt", "1")
    cursor = await scheduling.cursor(stalled.schedule_id)

    finished = await scheduling.finish(stalled, outcome, final=True)

    assert finished.refused == {stalled.lease}
    assert (await scheduling.rows(), await scheduling.rows("execution_attempt", "1")) == before
    assert await scheduling.cursor(stalled.schedule_id) == cursor


async def test_a_heartbeat_after_the_lease_was_taken_renews_nothing(scheduling: Scheduling) -> None:
    stalled = await running(scheduling)
    scheduling.clock.advance(seconds=61)
    await recover_lost(scheduling.replica("two"))
    (taken,) = (await scheduling.claim(scheduling.replica("two"))).started
    before = await scheduling.rows()
    scheduling.clock.advance(seconds=10)

    async with scheduling.database.transaction() as connection:
        lease = timedelta(seconds=60)
        held = await finishing.heartbeat(
            connection, [stalled], lease=lease, at=scheduling.clock.now
        )

    assert held == []
    assert taken.lease_token != stalled.lease_token
    assert await scheduling.rows() == before


async def test_only_the_stale_results_of_a_batch_are_refused(scheduling: Scheduling) -> None:
    await scheduling.waiting(3)
    first, second, third = (await scheduling.claim()).started
    stale = second._replace(lease_token=uuid4())

    finished = await finish_batch(
        scheduling.replica(), [Attempt(each, SUCCEEDED) for each in (first, stale, third)]
    )

    assert finished.refused == {stale.lease}
    assert await scheduling.count(state="SUCCEEDED") == 2
    assert await scheduling.count(state="RUNNING", id=second.id) == 1


async def test_an_execution_whose_definition_is_gone_ends_dead_with_the_reason(
    scheduling: Scheduling,
) -> None:
    claimed = await running(scheduling)
    await scheduling.execute("DELETE FROM tenantcron.schedule_definition")

    await scheduling.finish(claimed, FAILED, "broke")

    ((state, reason),) = await scheduling.states()
    assert state == "DEAD"
    assert "its definition is missing" in str(reason)


async def test_a_result_that_the_database_rejects_does_not_delay_the_others(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(20)
    await scheduling.waiting(9)
    claimed = (await scheduling.claim()).started
    await scheduling.execute(
        "ALTER TABLE tenantcron.execution_past"
        f" ADD CONSTRAINT not_this_one CHECK (id <> '{claimed[4].id}')"
    )
    results = Results(scheduling.replica(), on_freed=lambda: None)
    for execution in claimed:
        results.add(Attempt(execution, SUCCEEDED))

    writing = asyncio.create_task(results.write())
    await results.all_written()
    writing.cancel()

    assert await scheduling.count(state="SUCCEEDED") == 8
    assert await scheduling.count(state="RUNNING", id=claimed[4].id) == 1


async def test_concurrent_results_of_the_same_schedules_do_not_deadlock(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1000, 1000)
    ids = [
        await scheduling.schedule(f"s{number}", auto_pause_after=0, overlap="allow")
        for number in range(12)
    ]
    rounds = 8
    for number in range(rounds):
        for schedule_id in ids:
            await scheduling.waiting(
                4,
                schedule_id=schedule_id,
                scheduled_for=NOON + timedelta(hours=number + 1),
                not_before=NOON,
                overlap="allow",
            )
    claimed = (await scheduling.claim()).started
    assert len(claimed) == 12 * 4 * rounds
    # Four replicas, each with one execution of every schedule per round, in different orders.
    by_schedule = {
        schedule_id: [each for each in claimed if each.schedule_id == schedule_id]
        for schedule_id in ids
    }
    for number in range(rounds):
        batches = [
            [by_schedule[schedule_id][number * 4 + replica] for schedule_id in ids]
            for replica in range(4)
        ]
        batches[1].reverse()
        batches[3].reverse()
        await asyncio.gather(
            *(
                finish_batch(
                    scheduling.replica(f"r{index}"),
                    [Attempt(execution, FAILED, "broke", final=True) for execution in batch],
                )
                for index, batch in enumerate(batches)
            )
        )

    cursors = await scheduling.rows("schedule_cursor", "1")
    assert [row["consecutive_failures"] for row in cursors] == [4 * rounds] * 12
    assert await scheduling.count(state="DEAD") == 12 * 4 * rounds


async def test_finish_reports_whether_executions_wait_for_the_freed_slots(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2)
    first, second = (await scheduling.claim()).started

    assert not (await scheduling.finish(first)).waiting
    assert (await scheduling.finish(second, FAILED, "again")).waiting
