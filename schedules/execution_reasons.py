"""Why an execution is in its state, as a code and the words for it.

A row has the code in `reason_code`, and in `reason` the detail that only its writer knew: an
operator's text, an error, a number. `reason_text` alone makes a sentence of both. Counts, advice
and events use the code, so the words can change. A row that the release before wrote has no code,
and its text is shown as it is.
"""

from enum import StrEnum
from typing import Final

from tenantcron.schedules.pause import pause_text


class ReasonCode(StrEnum):
    """Why an execution did not start, is retried or ended. SUCCEEDED has none."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    WORKER_LOST = "worker_lost"
    HEARTBEAT_MISSED = "heartbeat_missed"
    KILLED_WORKER = "killed_worker"
    INTERRUPTED = "interrupted"
    KEY_FORGOTTEN = "key_forgotten"
    UNREADABLE = "definition_unreadable"
    LIMIT = "limit"
    TENANT_LIMIT = "tenant_limit"
    RATE_LIMIT = "rate_limit"
    START_QUOTA = "start_quota"
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


_FORGOTTEN: Final = (
    "another attempt would come when the target may have forgotten the idempotency key"
)
# Without and with the detail. Keys are texts, because a newer release may write other codes.
_TEXTS: Final[dict[str, tuple[str, str]]] = {
    ReasonCode.FAILED: ("failed", "{}"),
    ReasonCode.TIMED_OUT: ("timed out", "{}"),
    ReasonCode.WORKER_LOST: ("worker lost", "{}"),
    ReasonCode.HEARTBEAT_MISSED: (
        "its worker sent no heartbeat",
        "its worker sent no heartbeat for {}",
    ),
    ReasonCode.KILLED_WORKER: ("killed its worker", "killed its worker {}"),
    ReasonCode.INTERRUPTED: ("interrupted by shutdown", "{}"),
    ReasonCode.KEY_FORGOTTEN: (_FORGOTTEN, f"{_FORGOTTEN}, which it remembers for {{}}"),
    ReasonCode.UNREADABLE: ("its definition cannot be read", "{}"),
    ReasonCode.LIMIT: ("concurrency limit reached", "concurrency limit reached ({})"),
    ReasonCode.TENANT_LIMIT: (
        "tenant concurrency limit reached",
        "tenant concurrency limit reached ({})",
    ),
    ReasonCode.RATE_LIMIT: ("rate limit of its host reached", "rate limit of {} reached"),
    ReasonCode.START_QUOTA: (
        "quota of starts per minute reached",
        "quota of {} starts per minute reached",
    ),
    ReasonCode.TENANT_INACTIVE: ("tenant inactive", "tenant {}"),
    ReasonCode.SOURCE_STALE: ("statuses of tenants are out of date",) * 2,
    ReasonCode.PAUSED: ("paused", "paused: {}"),
    ReasonCode.DISABLED: ("schedule disabled",) * 2,
    ReasonCode.REMOVED: ("schedule removed",) * 2,
    ReasonCode.STILL_RUNNING: ("still running",) * 2,
    ReasonCode.REPLACED: ("replaced by the next occurrence",) * 2,
    ReasonCode.NO_SCHEDULER: (
        "no scheduler started it in time",
        "no scheduler started it in time ({})",
    ),
    ReasonCode.NO_RUNNER: ("no live replica can run it", "no live replica can run it ({})"),
    ReasonCode.CANCELLED: ("cancelled", "{}"),
    ReasonCode.OWNER_REFUSED: ("its owner may not do this", "{}"),
}


def reason_forms() -> dict[str, tuple[str, str]]:
    """Return the words of each code, without and with the detail, which replaces `{}`."""
    return {str(code): forms for code, forms in _TEXTS.items()}


def reason_text(code: str | None, detail: str | None) -> str | None:
    """Return the reason in words; None if there is none."""
    if code is None:
        return detail
    if code == ReasonCode.PAUSED and detail:
        detail = pause_text(detail)
    without, within = _TEXTS.get(code, (code, f"{code}: {{}}"))
    return within.format(detail) if detail else without
