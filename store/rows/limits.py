"""The row of `limits`: how many executions may run at once, over all replicas.

The scheduler's settings declare numbers, and an operator may set others, which go before them until
they are given back. Every claim reads the row, so a change holds from the next claim on.
"""

from dataclasses import dataclass

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.schema.tables import limits

# One slot in so many is kept for tenants that run nothing, see `claiming`.
KEPT_SHARE = 4


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """What the settings declare and what an operator has set instead, if anything."""

    declared: int
    declared_per_tenant: int
    operator: int | None
    operator_per_tenant: int | None

    @property
    def overall(self) -> int:
        """How many executions may run at once."""
        return self.declared if self.operator is None else self.operator

    @property
    def kept(self) -> int:
        """How many of these slots are kept for tenants that run nothing, at most."""
        return self.overall // KEPT_SHARE

    @property
    def per_tenant(self) -> int:
        """How many of one tenant, unless the tenant has a limit of its own."""
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
    """Write down what the settings say, None where they say nothing; return if it is news."""
    values = {"declared": overall, "declared_per_tenant": per_tenant}
    news = {name: value for name, value in values.items() if value is not None}
    if not news:
        return False
    differs = or_(*(limits.c[name] != value for name, value in news.items()))
    statement = update(limits).where(differs).values(**news, updated_at=func.now())
    return (await connection.execute(statement)).rowcount > 0


async def set_by_operator(connection: AsyncConnection, values: dict[str, int | None]) -> None:
    """Set or give back what goes before the settings, by the names of the columns."""
    await connection.execute(update(limits).values(**values, updated_at=func.now()))
