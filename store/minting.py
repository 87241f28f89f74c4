"""Mint, as the database sees it: whether running executions may have tokens now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.arrays import uuids
from tenantcron.store.claiming import Claimed, Lease
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


async def permits(
    connection: AsyncConnection, asked: Sequence[Claimed], *, identity: str, at: datetime | None
) -> dict[Lease, Permit]:
    """Look at executions, their tenants and the keys; by lease, without those that are gone."""
    parameters = {
        "ids": uuids(one.id for one in asked),
        "tokens": uuids(one.lease_token for one in asked),
        "identity": identity,
        "at": at,
    }
    rows = await connection.exec_driver_sql(statement("mint"), parameters)
    return {(row[0], row[1]): _permit(*row[2:]) for row in map(tuple, rows)}


def _permit(holds: bool, tenant: str, identity: str | None, now: datetime, kid: str) -> Permit:
    own = TenantStatus(identity) if identity else None
    return Permit(holds, TenantStatus(tenant), own, now, kid)
