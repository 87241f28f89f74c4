"""Reason codes decide what is counted and advised, not the text of a reason."""

from random import Random
from uuid import uuid4

import pytest
from support.attempts import SETTINGS, claimed
from support.scheduling import Scheduling

from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.metrics.counts import ENDS
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, KeyForgotten, ended
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.idempotency_retention import DEFAULT_RETENTION
from tenantcron.scheduler.steps.retry import next_state
from tenantcron.schedules import execution_reasons
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows.executions import State


@pytest.fixture
def other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the text of every reason."""
    texts = {code: (f"for {code.name}", f"for {code.name}, {{}}") for code in ReasonCode}
    monkeypatch.setattr(execution_reasons, "_TEXTS", texts)


@pytest.mark.usefixtures("other_words")
async def test_counts_and_explanations_do_not_depend_on_the_text_of_reasons(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.schedule(overlap="skip")
    for _ in range(2):
        scheduling.clock.advance(hours=1)
        await scheduling.fire(replica)
        await scheduling.claim_all(replica)
    async with scheduling.database.transaction() as connection:
        ref = schedule_ref("acme/nightly")
        lease = scheduling.settings.lease
        status = await read_schedule_status(connection, ref, lease, scheduling.clock())

    assert replica.counts.ended == {(State.SKIPPED, ReasonCode.STILL_RUNNING): 1}
    (last,) = [reason for reason in explain(status) if reason.code == "last-skipped"]
    assert "for STILL_RUNNING" in last.message
    assert "`overlap: queue`" in last.hint


async def test_a_replaced_running_execution_is_counted_by_its_reason_code(
    scheduling: Scheduling,
) -> None:
    replica, schedule = scheduling.replica(), uuid4()
    await scheduling.waiting(1, schedule_id=schedule, overlap="cancel_running")
    (running,) = await scheduling.claim_all(replica)
    await scheduling.waiting(1, schedule_id=schedule, overlap="cancel_running")
    await scheduling.claim_all(replica)
    await scheduling.execute("UPDATE tenantcron.execution SET cancel_reason = 'other words'")

    await finish_batch(replica, [Attempt(running, AttemptOutcome.FAILED, "broke")])

    assert replica.counts.ended == {(State.CANCELLED, ReasonCode.REPLACED): 1}
    assert await scheduling.count(reason="replaced by the next occurrence") == 1


@pytest.mark.parametrize("words", ["paused: x", "still running", "replaced by the next occurrence"])
async def test_the_text_of_an_operator_never_becomes_another_code(
    scheduling: Scheduling, words: str
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting()
    (running,) = await scheduling.claim_all(replica)
    # As the previous release requests a cancellation: without a code.
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = :at, cancel_reason = :words",
        at=scheduling.clock.now,
        words=words,
    )

    await finish_batch(replica, [Attempt(running, AttemptOutcome.CANCELLED, words)])

    assert replica.counts.ended == {(State.CANCELLED, ReasonCode.CANCELLED): 1}
    assert await scheduling.count(reason=words) == 1


@pytest.mark.parametrize("outcome", sorted(set(AttemptOutcome) - {AttemptOutcome.LOST}))
def test_every_way_to_end_is_counted_from_zero(outcome: AttemptOutcome) -> None:
    allowed = claimed(attempts_allowed=1)
    result = next_state(Attempt(allowed, outcome), SETTINGS, Random(1))  # noqa: S311 -- no secret

    assert (State(result.state), result.reason_code) in ENDS


def test_a_call_that_comes_too_late_has_its_own_code() -> None:
    attempt = ended(claimed(), KeyForgotten(DEFAULT_RETENTION))

    result = next_state(attempt, SETTINGS, Random(1))  # noqa: S311 -- no secret

    assert (result.state, result.reason_code) == ("DEAD", ReasonCode.KEY_FORGOTTEN)
    assert result.detail == "1d"
    assert (attempt.error or "").endswith("which it remembers for 1d")
