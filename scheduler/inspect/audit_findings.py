"""The findings of an audit, each with its fix."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tenantcron.core.names import TenantId


class AuditCode(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPECTED = "unexpected"
    MISSING_CURSOR = "missing-cursor"
    ORPHANED_CURSOR = "orphaned-cursor"
    DIFFERENT_CURSOR = "different-cursor"
    UNREADABLE = "unreadable"
    MAY_REPEAT = "may-repeat"
    LOST_TASK = "lost-task"
    DOUBLED_TASK = "doubled-task"
    ORPHANED_EXECUTION = "orphaned-execution"
    OVERDUE_TASK = "overdue-task"


_HINTS = {
    AuditCode.LOST: "no execution and no reason is recorded: run it with `tenantcron schedule "
    "trigger`, keep the neighbouring rows and report a bug",
    AuditCode.DOUBLED: "check with `tenantcron execution list` whether both ran; report a bug "
    "unless rows were inserted manually",
    AuditCode.UNEXPECTED: "the row was inserted manually, or the timetable was changed manually: "
    "apply the manifest again",
    AuditCode.MISSING_CURSOR: "`tenantcron health` shows whether the tenant cannot be synced; "
    "apply a manifest with any change, so that the tenant is synced again",
    AuditCode.ORPHANED_CURSOR: "it fires although no manifest declares it: apply a manifest with "
    "any change, so that the tenant is synced again",
    AuditCode.DIFFERENT_CURSOR: "the cursor was changed manually: apply a manifest with any "
    "change, so that the tenant is synced again",
    AuditCode.UNREADABLE: "run `tenantcron migrate` to create missing tables",
    AuditCode.MAY_REPEAT: "check its effects, unless its target honours the Idempotency-Key; the "
    "occurrence itself is not lost",
    AuditCode.LOST_TASK: "submit it again with a new key, keep the row of the task and report a "
    "bug unless rows were deleted manually",
    AuditCode.DOUBLED_TASK: "check with `tenantcron execution show` whether both ran; report a bug "
    "unless rows were inserted manually",
    AuditCode.ORPHANED_EXECUTION: "find out who deleted the task or inserted the execution; report "
    "a bug unless rows were changed manually",
    AuditCode.OVERDUE_TASK: "start a scheduler; tasks wait while a replica of the release before "
    "runs, and for an hour after one was lost",
}


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One finding, possibly about several occurrences."""

    code: AuditCode
    tenant: TenantId
    schedule: str | None
    message: str
    since: datetime | None = None
    until: datetime | None = None
    count: int = 1

    @property
    def hint(self) -> str:
        """The fix."""
        return _HINTS[self.code]
