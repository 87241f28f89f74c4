"""What becomes of an execution when an attempt has ended."""

from datetime import timedelta
from random import Random

import pytest
from support.attempts import SETTINGS, claimed

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.retry import (
    LONGEST_REASON,
    NextState,
    next_state,
    next_state_after_loss,
)
from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.schedules.settings import RetryPolicy


class Highest(Random):
    """Every random number is the highest that there can be."""

    def uniform(self, _a: float, b: float) -> float:
        return b


def state_after(
    outcome: AttemptOutcome,
    *,
    error: str | None = None,
    attempt: int = 1,
    allowed: int = 3,
    retry_after: timedelta | None = None,
    final: bool = False,
    retry: RetryPolicy = SETTINGS.retry,
) -> NextState:
    of = claimed(attempt=attempt, attempts_allowed=allowed)
    ended = Attempt(of, outcome, error, retry_after, final)
    return next_state(ended, SETTINGS._replace(retry=retry), Highest())


def test_a_success_has_no_reason() -> None:
    assert state_after(AttemptOutcome.SUCCEEDED) == NextState("SUCCEEDED")


def test_a_success_on_the_last_attempt_is_a_success() -> None:
    assert state_after(AttemptOutcome.SUCCEEDED, attempt=3).state == "SUCCEEDED"


@pytest.mark.parametrize("outcome", [AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT])
@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (6, 32), (7, 60), (8, 60)]
)
def test_the_longest_wait_doubles_with_every_attempt_up_to_max_backoff(
    outcome: AttemptOutcome, attempt: int, seconds: int
) -> None:
    result = state_after(outcome, attempt=attempt, allowed=100)

    assert (result.state, result.wait) == ("RETRYING", timedelta(seconds=seconds))


def test_the_wait_is_anywhere_between_nothing_and_the_longest() -> None:
    random = Random(7)  # noqa: S311 -- not a secret
    ended = Attempt(claimed(attempt=3, attempts_allowed=9), AttemptOutcome.FAILED)
    waits = [next_state(ended, SETTINGS, random).wait.total_seconds() for _ in range(1000)]

    assert 0 <= min(waits) < 0.1
    assert 3.9 < max(waits) <= 4


@pytest.mark.parametrize("attempt", [64, 1_100, 10**9])
@pytest.mark.parametrize("backoff", [timedelta(0), timedelta(seconds=1), timedelta(days=9999)])
def test_no_number_of_attempts_is_too_large(attempt: int, backoff: timedelta) -> None:
    retry = RetryPolicy(10**9 + 1, backoff, timedelta(days=9999))

    wait = state_after(AttemptOutcome.FAILED, attempt=attempt, allowed=10**9 + 1, retry=retry).wait

    assert wait == (timedelta(days=9999) if backoff else timedelta(0))


def test_a_delay_requested_by_the_handler_is_used_exactly() -> None:
    after = timedelta(hours=2)

    assert state_after(AttemptOutcome.FAILED, retry_after=after).wait == after


def test_an_execution_without_attempts_left_is_dead() -> None:
    result = state_after(AttemptOutcome.FAILED, attempt=3, error="ValueError: x\n\nframes")

    assert result == NextState("DEAD", ReasonCode.FAILED, "ValueError: x")


def test_a_requested_retry_does_not_add_an_attempt() -> None:
    assert state_after(AttemptOutcome.FAILED, attempt=3, retry_after=timedelta(0)).state == "DEAD"


def test_a_final_failure_is_dead_on_its_first_attempt() -> None:
    assert state_after(AttemptOutcome.FAILED, final=True).state == "DEAD"


def test_an_interrupted_attempt_is_retried_at_once_while_attempts_are_left() -> None:
    result = state_after(AttemptOutcome.INTERRUPTED, attempt=2)
    assert (result.state, result.wait) == ("RETRYING", timedelta(0))
    assert state_after(AttemptOutcome.INTERRUPTED, attempt=3).state == "DEAD"


@pytest.mark.parametrize(("blamed", "allowed"), [(0, 1), (2, 3)])
def test_a_loss_uses_up_no_attempt_and_starts_again_at_once(blamed: int, allowed: int) -> None:
    assert next_state_after_loss(blamed, allowed) == NextState("RETRYING", ReasonCode.WORKER_LOST)


def test_an_execution_blamed_as_often_as_allowed_is_dead() -> None:
    assert next_state_after_loss(3, 3) == NextState("DEAD", ReasonCode.KILLED_WORKER, "3 times")


def test_losses_do_not_lengthen_the_wait_after_a_failure() -> None:
    ended = Attempt(claimed(attempt=5, attempts_allowed=9, losses=4), AttemptOutcome.FAILED)

    assert next_state(ended, SETTINGS, Highest()).wait == SETTINGS.retry.backoff


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_cancelled_execution_stays_cancelled(attempt: int) -> None:
    assert state_after(AttemptOutcome.CANCELLED, attempt=attempt).state == "CANCELLED"


@pytest.mark.parametrize(
    ("outcome", "error", "reason"),
    [
        (AttemptOutcome.TIMED_OUT, "timed out after 5m\n\nframes", "timed out after 5m"),
        (AttemptOutcome.FAILED, "ValueError: no such meter\n\nframes", "ValueError: no such meter"),
        (AttemptOutcome.FAILED, "\n  \nlate line", "late line"),
        (AttemptOutcome.FAILED, None, "failed"),
        (AttemptOutcome.INTERRUPTED, None, "interrupted by shutdown"),
        (AttemptOutcome.CANCELLED, None, "cancelled"),
    ],
)
def test_the_reason_is_one_line_for_people(
    outcome: AttemptOutcome, error: str | None, reason: str
) -> None:
    result = state_after(outcome, error=error)

    assert reason_text(result.reason_code, result.detail) == reason


def test_a_long_reason_is_truncated() -> None:
    detail = state_after(AttemptOutcome.FAILED, error="x" * 10_000).detail

    assert detail is not None
    assert len(detail) == LONGEST_REASON
