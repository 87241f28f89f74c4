"""Tenants whose cursors are not in sync with their schedules: the first few, and how many.

A fleet has thousands of tenants, and usually none of these. So the database searches for them
instead of returning all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Interval, Text, bindparam, cast, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.times import NOW
from tenantcron.store.schema.tables import manifest_version, tenant

_HAS_MOVED = tenant.c.schedule_revision != tenant.c.synced_revision


@dataclass(frozen=True, slots=True)
class Behind:
    """A tenant that is not in sync, and the reason if it is known."""

    tenant_id: TenantId
    fault: str | None


@dataclass(frozen=True, slots=True)
class SomeBehind:
    """The first few matching tenants, by id, and how many there are."""

    rows: tuple[Behind, ...]
    number: int


_FAULTY = (
    select(tenant.c.id, tenant.c.sync_fault, func.count().over())
    .where(tenant.c.sync_fault.is_not(None))
    .order_by(tenant.c.id)
    .limit(bindparam("limit"))
)


async def faulty(connection: AsyncConnection, limit: int) -> SomeBehind:
    """Return tenants that cannot be synced completely."""
    rows = await connection.execute(_FAULTY, {"limit": limit})
    return _some([(TenantId(row[0]), row[1], row[2]) for row in rows])


async def any_moved(connection: AsyncConnection) -> bool:
    """Return whether the schedules of any tenant have changed and are not synced yet."""
    return bool(await connection.scalar(select(exists().where(_HAS_MOVED))))


async def from_id(
    connection: AsyncConnection, only: TenantId | None, first: str, limit: int
) -> list[TenantId]:
    """Return tenants whose cursors differ from their schedules or cannot be synced, by id."""
    statement = (
        select(tenant.c.id)
        .where(_HAS_MOVED | tenant.c.sync_fault.is_not(None), tenant.c.id >= first)
        .order_by(tenant.c.id)
        .limit(limit)
    )
    if only is not None:
        statement = statement.where(tenant.c.id == only)
    return [TenantId(tenant_id) for tenant_id in await connection.scalars(statement)]


# The last apply, or the last change of the tenant.
_SINCE = func.greatest(
    tenant.c.updated_at,
    select(manifest_version.c.applied_at)
    .where(manifest_version.c.tenant_id == tenant.c.id)
    .order_by(manifest_version.c.version.desc())
    .limit(1)
    .scalar_subquery(),
)
_NOT_SYNCED = (
    select(tenant.c.id, cast(literal(None), Text), func.count().over())
    .where(_HAS_MOVED, NOW - bindparam("longer_than", type_=Interval) > _SINCE)
    .order_by(tenant.c.id)
    .limit(bindparam("limit"))
)


async def not_synced(
    connection: AsyncConnection, longer_than: timedelta, at: datetime | None, limit: int
) -> SomeBehind:
    """Return tenants whose schedules changed longer ago than that and are not synced yet."""
    parameters = {"longer_than": longer_than, "at": at, "limit": limit}
    rows = await connection.execute(_NOT_SYNCED, parameters)
    return _some([(TenantId(row[0]), row[1], row[2]) for row in rows])


def _some(found: Sequence[tuple[TenantId, str | None, int]]) -> SomeBehind:
    rows = tuple(Behind(tenant_id, fault) for tenant_id, fault, _ in found)
    return SomeBehind(rows, found[0][2] if found else 0)
