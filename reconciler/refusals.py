"""Refusals: why a tenant's manifest is not applied. A refusal changes nothing."""

from tenantcron.core.errors import TenantcronError
from tenantcron.manifests.language.rules import Rule

_ALL = (
    Rule(
        "TC601",
        "unknown-tenant",
        "The manifest's tenant does not exist.",
        "A misspelt id would otherwise create another tenant.",
        "Create it: `tenantcron tenant create ID`, or apply with --create-tenants.",
    ),
    Rule(
        "TC602",
        "tenant-deprovisioned",
        "The manifest's tenant has been deprovisioned.",
        "Nothing runs for it, so its schedules would never fire.",
        "Remove its manifest, or resume the tenant if its schema was kept.",
    ),
    Rule(
        "TC603",
        "too-many-deletes",
        "The apply would delete more of the tenant's schedules than is allowed at once.",
        "An emptied or half-merged manifest must not delete a tenant's schedules.",
        "Check the list. If it is correct, allow it with --max-deletes N.",
    ),
    Rule(
        "TC604",
        "stale-plan",
        "The tenant's schedules, or the schedules of its manifest, changed since the plan.",
        "The apply would differ from what was reviewed.",
        "Plan again, review the plan, and apply it.",
    ),
    Rule(
        "TC605",
        "invalid-manifest",
        "The manifest has errors.",
        "A manifest must pass `tenantcron validate` and comply with the tenant's own caps.",
        "Fix the problems that the diagnostics report.",
    ),
    Rule(
        "TC606",
        "database-refused",
        "The database rejected the tenant's transaction, which was rolled back.",
        "The tenant's schema may be missing, locked or outdated.",
        "Read the message; `tenantcron migrate` upgrades an outdated schema. Then apply again.",
    ),
    Rule(
        "TC607",
        "over-the-cap",
        "The tenant would have more schedules than its own cap allows.",
        "The cap is checked when schedules are written, even if the plan is older than the cap.",
        "Remove schedules, or raise the cap: `tenantcron tenant set ID --max-schedules N`.",
    ),
)

REFUSALS = {rule.code: rule for rule in _ALL}


class RefusedError(TenantcronError):
    """An apply was refused for one tenant: its transaction is rolled back, others continue."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the code, for programs, and the message."""
        super().__init__(message)
        self.code = code
        self.message = message
