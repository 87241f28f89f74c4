"""The concurrency limits of the cluster as JSON; the keys are stable."""

from tenantcron.service.responses.platform_shapes import LimitsResponse
from tenantcron.store.rows.limits import ClusterLimits


def limits_as_json(limits: ClusterLimits, running: int) -> LimitsResponse:
    """Return the limits in effect, and where they come from."""
    return {
        "max_concurrent": limits.overall,
        "max_concurrent_per_tenant": limits.per_tenant,
        "declared": {
            "max_concurrent": limits.declared,
            "max_concurrent_per_tenant": limits.declared_per_tenant,
        },
        "operator": {
            "max_concurrent": limits.operator,
            "max_concurrent_per_tenant": limits.operator_per_tenant,
        },
        "running": running,
    }
