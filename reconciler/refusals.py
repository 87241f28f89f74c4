"""Why a tenant's manifest is not applied; each refusal changes nothing."""

from tenantcron.core.errors import TenantcronError
from tenantcron.manifests.language.rules import Rule

_ALL = (
    Rule(
        "TC601",
        "unknown-tenant",
        "The manifest's tenant does not exist.",
        "A misspelt id would otherwise become a tenant of its own.",
        "Create it: `tenantcron tenant create ID`, or apply with --create-tenants.",
    ),
    Rule(
        "TC602",
        "tenant-deprovisioned",
        "The manifest's tenant has been deprovisioned.",
        "Nothing runs for it any more; schedules would only look alive.",
        "Remove its manifest; or resume the tenant, if its schema was kept.",
    ),
    Rule(
        "TC603",
        "too-many-deletes",
        "The apply would delete more of the tenant's schedules than is allowed at once.",
        "An emptied or half-merged manifest should not take a tenant's schedules with it.",
        "Check the list; if it is meant, allow it with --max-deletes N.",
    ),
    Rule(
        "TC604",
        "stale-plan",
        "The tenant's schedules, or what its manifest means, have changed since the plan was made.",
        "What was reviewed is not what would be done.",
        "Plan again, review, apply that plan.",
    ),
    Rule(
        "TC605",
        "invalid-manifest",
        "The manifest has errors.",
        "Only what passes `tenantcron validate` is applied, and the tenant's own caps count, too.",
        "Mend what the diagnostics say.",
    ),
    Rule(
        "TC606",
        "database-refused",
        "The database did not carry out the tenant's transaction; it was rolled back.",
        "The tenant's schema may be missing, locked or older than this version.",
        "Read the message; `tenantcron migrate` mends a schema that is behind. Then apply again.",
    ),
    Rule(
        "TC607",
        "over-the-cap",
        "The tenant would have more schedules than its own cap allows.",
        "The cap counts when the schedules are written, also for a plan that was made before it.",
        "Fewer schedules, or a higher cap: `tenantcron tenant set ID --max-schedules N`.",
    ),
)

REFUSALS = {rule.code: rule for rule in _ALL}


class RefusedError(TenantcronError):
    """One tenant's apply is refused; its transaction is rolled back, other tenants go on."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the code for programs and the words for people."""
        super().__init__(message)
        self.code = code
        self.message = message
