"""The row of `limits`: the cluster limits of concurrent executions, and the quotas of the policy.

The scheduler's settings declare limits, and an operator may override them. Its policy declares
quotas, which an operator may override for a tenant. Every claim reads the row, so a change applies
from the next claim on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.store.schema.tables import limits

# One slot in this many is reserved for tenants without running executions, see `claiming`.
KEPT_SHARE = 4


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """The limits from the settings, and the overrides of an operator."""

    declared: int
    declared_per_tenant: int
    operator: int | None
    operator_per_tenant: int | None

    @property
    def overall(self) -> int:
        """The cluster limit."""
        return self.declared if self.operator is None else self.operator

    @property
    def kept(self) -> int:
        """How many slots at most are reserved for tenants without running executions."""
        return self.overall // KEPT_SHARE

    @property
    def per_tenant(self) -> int:
        """The default limit of a tenant."""
        if self.operator_per_tenant is None:
            return self.declared_per_tenant
        return self.operator_per_tenant


async def read(connection: AsyncConnection) -> ClusterLimits:
    """Return the limits."""
    columns = (
        limits.c.declared,
        limits.c.declared_per_tenant,
        limits.c.operator,
        limits.c.operator_per_tenant,
    )
    return ClusterLimits(*(await connection.execute(select(*columns))).one())


async def declare(connection: AsyncConnection, overall: int | None, per_tenant: int | None) -> bool:
    """Store the limits of the settings, except for None; return whether they changed."""
    values = {"declared": overall, "declared_per_tenant": per_tenant}
    declared = {name: value for name, value in values.items() if value is not None}
    if not declared:
        return False
    differs = or_(*(limits.c[name] != value for name, value in declared.items()))
    statement = update(limits).where(differs).values(**declared, updated_at=func.now())
    return (await connection.execute(statement)).rowcount > 0


async def read_quotas(connection: AsyncConnection) -> DeclaredQuotas:
    """Return the quotas of the policy that a scheduler declared last."""
    row = (await connection.execute(select(limits.c.quotas, limits.c.tenant_quotas))).one()
    tenants = {TenantId(tenant): dict(quotas) for tenant, quotas in row.tenant_quotas.items()}
    return DeclaredQuotas(dict(row.quotas), tenants)


async def declare_quotas(connection: AsyncConnection, quotas: DeclaredQuotas) -> bool:
    """Store the quotas of the policy; return whether they changed."""
    values: Mapping[str, dict[str, object]] = {
        "quotas": dict(quotas.overall),
        "tenant_quotas": {tenant: dict(own) for tenant, own in quotas.tenants.items()},
    }
    differs = or_(*(limits.c[name] != value for name, value in values.items()))
    statement = update(limits).where(differs).values(**values, updated_at=func.now())
    return (await connection.execute(statement)).rowcount > 0


async def declare_target_kinds(connection: AsyncConnection, kinds: Sequence[str]) -> bool:
    """Store the kinds of targets that the policy allows; return whether they changed."""
    declared = sorted(set(kinds))
    differs = limits.c.target_kinds != declared
    statement = update(limits).where(differs).values(target_kinds=declared, updated_at=func.now())
    return (await connection.execute(statement)).rowcount > 0


async def set_by_operator(connection: AsyncConnection, values: dict[str, int | None]) -> None:
    """Set or remove (None) the overrides of an operator, by column name."""
    await connection.execute(update(limits).values(**values, updated_at=func.now()))
