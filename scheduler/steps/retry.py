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
from tenantcron.scheduler.steps.attempts import WORDS, Attempt, AttemptOutcome
from tenantcron.schedules.settings import RetryPolicy, ScheduleSettings

SettledState = Literal["SUCCEEDED", "RETRYING", "DEAD", "SKIPPED", "CANCELLED"]

LONGEST_REASON: Final = 500
# Doubling so often passes every max_backoff; twice more would pass what a timedelta can hold.
_MOST_DOUBLINGS: Final = 500
_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Settled:
    """The state to write, why (one line for people), and how long a RETRYING one waits."""

    state: SettledState
    reason: str | None = None
    wait: timedelta = _AT_ONCE


def settle(attempt: Attempt, settings: ScheduleSettings, random: Random) -> Settled:
    """Decide what follows from an attempt that its worker reports."""
    reason = _reason(attempt)
    if attempt.outcome is AttemptOutcome.SUCCEEDED:
        return Settled("SUCCEEDED")
    if attempt.outcome is AttemptOutcome.CANCELLED:
        return Settled("CANCELLED", reason)
    if attempt.outcome is AttemptOutcome.REFUSED:
        return Settled("SKIPPED", reason)
    if attempt.final or attempt.claimed.attempt >= attempt.claimed.attempts_allowed:
        return Settled("DEAD", reason)
    return Settled("RETRYING", reason, _wait(attempt, settings.retry, random))


def settle_loss(attempt: Attempt, blamed: int, kills_allowed: int) -> Settled:
    """Decide what follows from an attempt that was lost with its worker."""
    if blamed >= kills_allowed:
        return Settled("DEAD", f"killed its worker {number_of(blamed, 'time')}")
    return Settled("RETRYING", _reason(attempt))


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


def _reason(attempt: Attempt) -> str | None:
    lines = (attempt.error or "").strip().splitlines()
    reason = lines[0] if lines else WORDS[attempt.outcome]
    if reason is None or len(reason) <= LONGEST_REASON:
        return reason
    return f"{reason[: LONGEST_REASON - 1]}…"
