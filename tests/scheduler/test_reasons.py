"""Codes of reasons decide what is counted and advised, whatever the words."""

from random import Random
from uuid import uuid4

import pytest
from support.attempts import SETTINGS, claimed
from support.scheduling import Scheduling

from tenantcron.scheduler.inspect.schedule_status import read_situation, schedule_ref
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.metrics.counts import ENDS
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, KeyForgotten, ended
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.idempotency_retention import DEFAULT_RETENTION
from tenantcron.scheduler.steps.retry import settle
from tenantcron.schedules import reasons
from tenantcron.schedules.reasons import ReasonCode
from tenantcron.store.rows.executions import State


@pytest.fixture
def other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every reason be worded otherwise."""
    texts = {code: (f"for {code.name}", f"for {code.name}, {{}}") for code in ReasonCode}
    monkeypatch.setattr(reasons, "_TEXTS", texts)


@pytest.mark.usefixtures("other_words")
async def test_executions_are_counted_and_explained_alike_if_all_words_change(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.schedule(overlap="skip")
    for _ in range(2):
        scheduling.clock.go_on(hours=1)
        await scheduling.fire(replica)
        await scheduling.claim_all(replica)
    async with scheduling.database.transaction() as connection:
        ref = schedule_ref("acme/nightly")
        lease = scheduling.settings.lease
        situation = await read_situation(connection, ref, lease, scheduling.clock())

    assert replica.counts.ended == {(State.SKIPPED, ReasonCode.STILL_RUNNING): 1}
    (last,) = [reason for reason in explain(situation) if reason.code == "last-skipped"]
    assert "for STILL_RUNNING" in last.message
    assert "`overlap: queue`" in last.hint


async def test_what_was_replaced_while_it_ran_is_counted_as_replaced_by_its_code(
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
async def test_an_operators_words_never_become_another_code(
    scheduling: Scheduling, words: str
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting()
    (running,) = await scheduling.claim_all(replica)
    # As the release before asks for a stop: without a code.
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = :at, cancel_reason = :words",
        at=scheduling.clock.now,
        words=words,
    )

    await finish_batch(replica, [Attempt(running, AttemptOutcome.CANCELLED, words)])

    assert replica.counts.ended == {(State.CANCELLED, ReasonCode.CANCELLED): 1}
    assert await scheduling.count(reason=words) == 1


@pytest.mark.parametrize("outcome", set(AttemptOutcome) - {AttemptOutcome.LOST})
def test_every_way_to_end_has_a_count_before_the_first_one_comes(outcome: AttemptOutcome) -> None:
    allowed = claimed(attempts_allowed=1)
    settled = settle(Attempt(allowed, outcome), SETTINGS, Random(1))  # noqa: S311 -- no secret

    assert (State(settled.state), settled.reason_code) in ENDS


def test_a_call_that_comes_too_late_has_its_own_code() -> None:
    attempt = ended(claimed(), KeyForgotten(DEFAULT_RETENTION))

    settled = settle(attempt, SETTINGS, Random(1))  # noqa: S311 -- no secret

    assert (settled.state, settled.reason_code) == ("DEAD", ReasonCode.KEY_FORGOTTEN)
    assert settled.detail == "1d"
    assert (attempt.error or "").endswith("which it remembers for 1d")
