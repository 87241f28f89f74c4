"""The result of a refresh of the tenants as JSON; the keys are stable."""

from tenantcron.service.responses.platform_shapes import RefreshResponse, TenantChangeResponse
from tenantcron.tenants.source.plan import PlannedTenantChange, differences
from tenantcron.tenants.source.refresh import SourceRefresh


def refresh_as_json(source: str, done: SourceRefresh, *, is_check: bool) -> RefreshResponse:
    """Return the differences, and what was changed."""
    plan = done.plan
    return {
        "source": source,
        "tenants": done.given,
        "applied": not is_check,
        "new": [row.id for row in plan.new],
        "registered": list(done.registered),
        "changes": [_change(change) for change in plan.changes],
        "held": list(plan.held),
        "problems": [
            {"tenant": found.tenant_id, "problem": found.problem} for found in done.problems
        ],
    }


def _change(change: PlannedTenantChange) -> TenantChangeResponse:
    return {
        "tenant": change.after.id,
        "changes": [
            {"column": column, "before": before, "after": after}
            for column, before, after in differences(change)
        ],
    }
