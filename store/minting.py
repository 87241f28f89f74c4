"""Mint, as the database sees it: whether a running execution may have a token now."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.statements import statement
from tenantcron.store.tenants import TenantStatus


@dataclass(frozen=True, slots=True)
class Permit:
    """What a token depends on, at one moment of the database's clock."""

    lease_holds: bool
    tenant: TenantStatus
    # None: there is no such identity.
    identity: TenantStatus | None
    now: datetime
    # None: no key in the database signs.
    kid: str | None


async def permit(
    connection: AsyncConnection,
    execution: UUID,
    lease_token: UUID,
    *,
    identity: str,
    at: datetime | None,
) -> Permit | None:
    """Look at an execution, its lease, its tenant and the keys; None if the lease is gone."""
    parameters = {"id": execution, "lease_token": lease_token, "identity": identity, "at": at}
    row = (await connection.exec_driver_sql(statement("mint"), parameters)).one_or_none()
    if row is None:
        return None
    holds, tenant, own, now, kid = tuple(row)
    return Permit(holds, TenantStatus(tenant), TenantStatus(own) if own else None, now, kid)
