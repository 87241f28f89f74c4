"""Retry: what becomes of an execution when an attempt has ended. Pure: values in, values out.

A failed attempt waits a random time of up to backoff, 2 backoffs, 4 backoffs and so on, at most
max_backoff. The whole range is used ("full jitter"), so that executions that failed together do not
come back together. What the scheduler itself broke off starts again at once.

A loss is not an attempt: what was lost with its worker uses up none of its attempts, and its next
failure waits no longer for it. `store/steps/suspects.py` has the protocol.
"""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final, Literal

from tenantcron.core.words import number_of
from tenantcron.scheduler.steps.attempts import CODES, Attempt, AttemptOutcome
from tenantcron.schedules.reasons import ReasonCode
from tenantcron.schedules.settings import RetryPolicy, ScheduleSettings

SettledState = Literal["SUCCEEDED", "RETRYING", "DEAD", "SKIPPED", "CANCELLED"]

LONGEST_REASON: Final = 500
# Doubling so often passes every max_backoff; twice more would pass what a timedelta can hold.
_MOST_DOUBLINGS: Final = 500
_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Settled:
    """The state to write, why (code and one line of detail), and how long a RETRYING one waits."""

    state: SettledState
    reason_code: ReasonCode | None = None
    detail: str | None = None
    wait: timedelta = _AT_ONCE


def settle(attempt: Attempt, settings: ScheduleSettings, random: Random) -> Settled:
    """Decide what follows from an attempt that its worker reports."""
    if attempt.outcome is AttemptOutcome.SUCCEEDED:
        return Settled("SUCCEEDED")
    why = attempt.why or (CODES[attempt.outcome], _detail(attempt))
    if attempt.outcome is AttemptOutcome.CANCELLED:
        return Settled("CANCELLED", *why)
    if attempt.outcome is AttemptOutcome.REFUSED:
        return Settled("SKIPPED", *why)
    if attempt.final or attempt.claimed.attempt >= attempt.claimed.attempts_allowed:
        return Settled("DEAD", *why)
    return Settled("RETRYING", *why, _wait(attempt, settings.retry, random))


def settle_loss(blamed: int, kills_allowed: int) -> Settled:
    """Decide what follows from an attempt that was lost with its worker."""
    if blamed >= kills_allowed:
        return Settled("DEAD", ReasonCode.KILLED_WORKER, number_of(blamed, "time"))
    return Settled("RETRYING", ReasonCode.WORKER_LOST)


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
