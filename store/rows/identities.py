"""Rows of `identity` and `service`: the identities under which schedulers act for tenants.

Every service that has ever run a scheduler has an identity in every tenant. Only triggers write
identities: they create them with a tenant or a service, and update them with the tenant's status.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.schema.tables import identity, service


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """One identity of a tenant."""

    tenant_id: TenantId
    id: str
    role: str
    status: TenantStatus
    created_at: datetime
    updated_at: datetime


async def declare_service(connection: AsyncConnection, name: str) -> bool:
    """Register the service name of schedulers; return whether it is new."""
    # Read first: the trigger of an insert blocks tenants that are being created.
    if (await connection.execute(select(service).where(service.c.name == name))).first():
        return False
    statement = insert(service).values(name=name, declared_at=func.now()).on_conflict_do_nothing()
    return (await connection.execute(statement.returning(service.c.name))).first() is not None


async def of_tenant(connection: AsyncConnection, tenant_id: TenantId) -> list[IdentityRow]:
    """Return a tenant's identities by name."""
    statement = select(identity).where(identity.c.tenant_id == tenant_id).order_by(identity.c.id)
    rows = (row._mapping for row in await connection.execute(statement))
    return [IdentityRow(**{**row, "status": TenantStatus(row["status"])}) for row in rows]
