"""Mint, the database side: whether running executions may have tokens now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.arrays import uuids
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.api_usage import ApiUsage, usage_of
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.steps.claiming import Lease
from tenantcron.store.steps.statements import statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Permit:
    """The conditions of a token, at one time of the database's clock."""

    lease_holds: bool
    tenant: TenantStatus
    # None: the identity does not exist.
    identity: TenantStatus | None
    now: datetime
    # None: the database has no active signing key.
    kid: str | None

    @property
    def allows(self) -> bool:
        """Whether a token may be minted."""
        return self.lease_holds and self.tenant == self.identity == TenantStatus.ACTIVE


async def permits(
    connection: AsyncConnection, leases: Sequence[Lease], *, identity: str, at: datetime | None
) -> dict[Lease, Permit]:
    """Check executions, their tenants and the keys; by lease, without lost leases."""
    parameters = {
        "ids": uuids(execution for execution, _ in leases),
        "tokens": uuids(token for _, token in leases),
        "identity": identity,
        "at": at,
    }
    rows = await connection.exec_driver_sql(statement("mint"), parameters)
    return {(row[0], row[1]): _permit(*row[2:]) for row in map(tuple, rows)}


@dataclass(frozen=True, slots=True)
class TokenLease:
    """The lease of an execution, at one time of the database's clock."""

    now: datetime
    # None: it is not running, its lease has expired, or its tenant or identity is not active.
    lease_token: UUID | None
    # None: the request was not counted.
    usage: ApiUsage | None


async def token_lease(
    database: Database,
    execution: UUID,
    *,
    identity: str,
    at: datetime | None,
    caller: str | None = None,
) -> TokenLease:
    """Return the lease of a token's execution; if a caller is given, count its request."""
    parameters = {"id": execution, "identity": identity, "at": at, "caller": caller}
    match await database.fetch(statement("token_lease"), parameters):
        case [(token, holds, tenant, own, int(now), requests, seconds_left)]:
            active = holds is True and tenant == own == TenantStatus.ACTIVE
            return TokenLease(
                _EPOCH + timedelta(microseconds=now),
                UUID(str(token)) if active else None,
                usage_of(requests, seconds_left),
            )
    raise TypeError("the columns of a token's lease have changed")


def _permit(holds: bool, tenant: str, identity: str | None, now: datetime, kid: str) -> Permit:
    own = TenantStatus(identity) if identity else None
    return Permit(holds, TenantStatus(tenant), own, now, kid)
