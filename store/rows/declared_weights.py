"""The weights that the policy declares for tenants, in `limits.tenant_weights` and `tenant.weight`.

Claims read `tenant.weight` alone. A scheduler that starts writes the weights of its policy there,
and remembers them in `limits`. A tenant whose weight differs from the one that was declared last
has it from an operator or from the tenant source, and keeps it.
"""

from collections.abc import Mapping

from sqlalchemy import SmallInteger, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.tenant_limits import DEFAULT_WEIGHT

# Locked, so that two schedulers with different policies declare one after the other.
_LAST = text("SELECT tenant_weights FROM tenantcron.limits FOR UPDATE")
_REMEMBER = text(
    "UPDATE tenantcron.limits SET tenant_weights = :weights, updated_at = now()"
).bindparams(bindparam("weights", type_=JSONB))
_SET = text("""
    UPDATE tenantcron.tenant AS t
    SET weight = changed.weight, updated_at = now()
    FROM unnest(:tenants, :last, :weights) AS changed (tenant_id, last, weight)
    WHERE t.id = changed.tenant_id AND t.weight = changed.last
""").bindparams(
    bindparam("tenants", type_=ARRAY(Text)),
    bindparam("last", type_=ARRAY(SmallInteger)),
    bindparam("weights", type_=ARRAY(SmallInteger)),
)


async def declare(connection: AsyncConnection, weights: Mapping[TenantId, int]) -> bool:
    """Store the weights of the policy; return whether they changed."""
    last = (await connection.execute(_LAST)).scalar_one()
    if last == weights:
        return False
    changed = sorted(
        tenant
        for tenant in last.keys() | weights.keys()
        if last.get(tenant, DEFAULT_WEIGHT) != weights.get(tenant, DEFAULT_WEIGHT)
    )
    await connection.execute(_REMEMBER, {"weights": dict(weights)})
    await connection.execute(
        _SET,
        {
            "tenants": changed,
            "last": [last.get(tenant, DEFAULT_WEIGHT) for tenant in changed],
            "weights": [weights.get(tenant, DEFAULT_WEIGHT) for tenant in changed],
        },
    )
    return True
