"""What an audit can find, each with what to do about it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tenantcron.core.names import TenantId


class AuditCode(StrEnum):
    """What can be wrong."""

    LOST = "lost"
    DOUBLED = "doubled"
    UNEXPECTED = "unexpected"
    MISSING_CURSOR = "missing-cursor"
    ORPHANED_CURSOR = "orphaned-cursor"
    DIFFERENT_CURSOR = "different-cursor"
    UNREADABLE = "unreadable"
    MAY_REPEAT = "may-repeat"


_HINTS = {
    AuditCode.LOST: "nothing ran for it and nothing says why: `tenantcron schedule trigger` makes "
    "up for it; keep the rows around it and report a bug",
    AuditCode.DOUBLED: "look with `tenantcron execution list` whether both ran; report a bug "
    "unless somebody wrote rows by hand",
    AuditCode.UNEXPECTED: "somebody wrote it by hand, or the timetable was changed by hand: apply "
    "the manifest again",
    AuditCode.MISSING_CURSOR: "`tenantcron health` tells if the tenant cannot be followed; apply a "
    "manifest that changes anything, so that the tenant is looked at again",
    AuditCode.ORPHANED_CURSOR: "it fires what no manifest declares: apply a manifest that changes "
    "anything, so that the tenant is looked at again",
    AuditCode.DIFFERENT_CURSOR: "somebody has changed the cursor: apply a manifest that changes "
    "anything, so that the tenant is looked at again",
    AuditCode.UNREADABLE: "`tenantcron migrate` mends missing tables",
    AuditCode.MAY_REPEAT: "check what it did, unless its target takes the Idempotency-Key into "
    "account; the occurrence itself is not lost",
}


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is not as it should be."""

    code: AuditCode
    tenant: TenantId
    schedule: str | None
    message: str
    since: datetime | None = None
    until: datetime | None = None
    count: int = 1

    @property
    def hint(self) -> str:
        """What to do next."""
        return _HINTS[self.code]
