"""Reads the quotas of a policy."""

from tenantcron.core.names import TenantId
from tenantcron.core.quotas import QUOTAS, DeclaredQuotas
from tenantcron.core.sizes import parse_size
from tenantcron.manifests.diagnostics import Fault
from tenantcron.manifests.view import View


def read_quotas(policy: View, faults: list[Fault]) -> DeclaredQuotas:
    """Return the quotas of all tenants and of single ones."""
    tenants = policy.get("tenants")
    entries = tenants.entries() if tenants else ()
    read = ((TenantId(tenant), _quotas(own.get("quotas"), faults)) for tenant, own in entries)
    return DeclaredQuotas(
        _quotas(policy.get("quotas"), faults), {tenant: own for tenant, own in read if own}
    )


def _quotas(view: View | None, faults: list[Fault]) -> dict[str, int]:
    quotas: dict[str, int] = {}
    for name, given in view.entries() if view else ():
        rule = QUOTAS[name]
        quota = parse_size(str(given.value)) if rule.is_size else int(str(given.value))
        # The schema has the range of numbers; sizes are texts.
        if rule.lowest <= quota <= rule.highest:
            quotas[name] = quota
        else:
            message = f"`{name}` must be from {rule.range}"
            faults.append(Fault("TC305", message, given.pointer))
    return quotas
