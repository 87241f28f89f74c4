"""Retry: the state of an execution after an attempt. Values in, values out.

After a failure the execution waits for a random time below a bound: backoff, then 2 backoffs, 4
backoffs and so on, at most max_backoff. The range begins at zero ("full jitter"), so executions
that failed together do not retry together. An attempt that a shutdown interrupted is retried at
once.

A loss does not count as an attempt: an execution that was lost with its worker keeps its attempts,
and a loss does not lengthen the backoff. `store/steps/suspects.py` has the protocol.
"""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final, Literal

from tenantcron.core.words import number_of
from tenantcron.scheduler.steps.attempts import CODES, Attempt, AttemptOutcome
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.settings import RetryPolicy, ScheduleSettings

StateAfterAttempt = Literal["SUCCEEDED", "RETRYING", "DEAD", "SKIPPED", "CANCELLED"]

LONGEST_REASON: Final = 500
# This many doublings exceed every max_backoff; twice as many would overflow a timedelta.
_MOST_DOUBLINGS: Final = 500
_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class NextState:
    """The state to write, its reason (code and one line of detail), and the delay of a retry."""

    state: StateAfterAttempt
    reason_code: ReasonCode | None = None
    detail: str | None = None
    wait: timedelta = _AT_ONCE


def next_state(attempt: Attempt, settings: ScheduleSettings, random: Random) -> NextState:
    """Return the state after an attempt that its worker reports."""
    if attempt.outcome is AttemptOutcome.SUCCEEDED:
        return NextState("SUCCEEDED")
    why = attempt.why or (CODES[attempt.outcome], _detail(attempt))
    if attempt.outcome is AttemptOutcome.CANCELLED:
        return NextState("CANCELLED", *why)
    if attempt.outcome is AttemptOutcome.REFUSED:
        return NextState("SKIPPED", *why)
    if attempt.final or attempt.claimed.attempt >= attempt.claimed.attempts_allowed:
        return NextState("DEAD", *why)
    return NextState("RETRYING", *why, _wait(attempt, settings.retry, random))


def next_state_after_loss(blamed: int, kills_allowed: int) -> NextState:
    """Return the state after an attempt that was lost with its worker."""
    if blamed >= kills_allowed:
        return NextState("DEAD", ReasonCode.KILLED_WORKER, number_of(blamed, "time"))
    return NextState("RETRYING", ReasonCode.WORKER_LOST)


def _wait(attempt: Attempt, retry: RetryPolicy, random: Random) -> timedelta:
    if attempt.outcome is AttemptOutcome.INTERRUPTED:
        return _AT_ONCE
    if attempt.retry_after is not None:
        return attempt.retry_after
    used = attempt.claimed.attempt - attempt.claimed.losses
    return timedelta(seconds=random.uniform(0, _longest_wait(retry, used)))


def _longest_wait(retry: RetryPolicy, attempts_used: int) -> float:
    doublings = min(attempts_used - 1, _MOST_DOUBLINGS)
    return min(retry.max_backoff.total_seconds(), retry.backoff.total_seconds() * 2.0**doublings)


def _detail(attempt: Attempt) -> str | None:
    lines = (attempt.error or "").strip().splitlines()
    if not lines or len(lines[0]) <= LONGEST_REASON:
        return lines[0] if lines else None
    return f"{lines[0][: LONGEST_REASON - 1]}…"
