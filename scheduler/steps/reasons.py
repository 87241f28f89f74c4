"""Why executions ended, as kinds: a small closed set, however freely the reasons are worded.

Reasons are sentences for people and hold names, numbers and what operators typed. Whoever counts
needs a few words that never become more.
"""

from enum import StrEnum
from typing import Final

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.requirements import NO_RUNNER


class ReasonKind(StrEnum):
    """Why an execution ended as it did."""

    NONE = "none"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    KILLED_WORKER = "killed_worker"
    INTERRUPTED = "interrupted"
    KEY_FORGOTTEN = "key_forgotten"
    LIMIT = "limit"
    TENANT_LIMIT = "tenant_limit"
    TENANT_INACTIVE = "tenant_inactive"
    SOURCE_STALE = "tenant_source_stale"
    PAUSED = "paused"
    DISABLED = "disabled"
    REMOVED = "removed"
    STILL_RUNNING = "still_running"
    REPLACED = "replaced"
    NO_SCHEDULER = "no_scheduler"
    NO_RUNNER = "no_runner"
    CANCELLED = "cancelled"
    OWNER_REFUSED = "owner_refused"
    OTHER = "other"


# How the reasons of executions begin that ended without a start; the first that fits counts.
_BEGINNINGS: Final = {
    "concurrency limit reached": ReasonKind.LIMIT,
    "tenant concurrency limit reached": ReasonKind.TENANT_LIMIT,
    "tenant ": ReasonKind.TENANT_INACTIVE,
    "statuses of tenants are out of date": ReasonKind.SOURCE_STALE,
    "paused": ReasonKind.PAUSED,
    "schedule disabled": ReasonKind.DISABLED,
    "schedule removed": ReasonKind.REMOVED,
    "still running": ReasonKind.STILL_RUNNING,
    "replaced by the next occurrence": ReasonKind.REPLACED,
    "no scheduler started it in time": ReasonKind.NO_SCHEDULER,
    "missed while no scheduler ran": ReasonKind.NO_SCHEDULER,
    NO_RUNNER: ReasonKind.NO_RUNNER,
}
# How the reason begins where it was not the attempt that ended the execution.
_FORGOTTEN: Final = "another attempt would come when the target may have forgotten"
_OF_OUTCOMES: Final = {
    AttemptOutcome.SUCCEEDED: ReasonKind.NONE,
    AttemptOutcome.FAILED: ReasonKind.FAILED,
    AttemptOutcome.TIMED_OUT: ReasonKind.TIMED_OUT,
    AttemptOutcome.LOST: ReasonKind.KILLED_WORKER,
    AttemptOutcome.INTERRUPTED: ReasonKind.INTERRUPTED,
    AttemptOutcome.CANCELLED: ReasonKind.CANCELLED,
    AttemptOutcome.REFUSED: ReasonKind.OWNER_REFUSED,
}
_DEADLY: Final = (
    ReasonKind.FAILED,
    ReasonKind.TIMED_OUT,
    ReasonKind.KILLED_WORKER,
    ReasonKind.INTERRUPTED,
    ReasonKind.KEY_FORGOTTEN,
)
_UNSTARTED: Final = tuple(dict.fromkeys(_BEGINNINGS.values()))
# All that can be counted, so that a count is there before the first one comes.
ENDS: Final = (
    (State.SUCCEEDED, ReasonKind.NONE),
    *((State.DEAD, kind) for kind in _DEADLY),
    *((State.SKIPPED, kind) for kind in (*_UNSTARTED, ReasonKind.OWNER_REFUSED)),
    (State.MISSED, ReasonKind.NO_SCHEDULER),
    (State.CANCELLED, ReasonKind.CANCELLED),
    *((State.CANCELLED, kind) for kind in _UNSTARTED),
)


def why_unstarted(reason: str | None) -> ReasonKind:
    """Return the kind of a reason that an execution did not start for."""
    found = (kind for words, kind in _BEGINNINGS.items() if (reason or "").startswith(words))
    return next(found, ReasonKind.OTHER)


def why_ended(state: State, outcome: str, reason: str | None) -> ReasonKind:
    """Return the kind of a reason that an execution ended for after an attempt."""
    if state is State.SUCCEEDED:
        return ReasonKind.NONE
    if state is State.CANCELLED:
        # Whoever cancels may type anything, also the words that the scheduler has for something.
        is_replaced = reason == "replaced by the next occurrence"
        return ReasonKind.REPLACED if is_replaced else ReasonKind.CANCELLED
    if reason is not None and reason.startswith(_FORGOTTEN):
        return ReasonKind.KEY_FORGOTTEN
    return _OF_OUTCOMES[AttemptOutcome(outcome)]
