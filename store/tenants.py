"""Rows of `tenant`. The tenant registry writes them; apply locks one and raises its revision."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from sqlalchemy import Row, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.tables import tenant

# Schedulers listen here for tenants whose schedules have changed; a hint, never the truth.
SCHEDULES_CHANGED = "tenantcron_schedules"


class TenantStatus(StrEnum):
    """Where a tenant is in its life."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DEPROVISIONED = "deprovisioned"


class Limits(TypedDict, total=False):
    """Limits of a tenant's own; None gives one back to the platform."""

    max_schedules: int | None
    max_concurrent: int | None


# A tenant may be kept from having schedules; one that may run nothing is suspended instead.
LOWEST_LIMITS = {"max_schedules": 0, "max_concurrent": 1}
HIGHEST_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant."""

    id: TenantId
    schema_name: str
    status: TenantStatus
    status_reason: str | None
    max_schedules: int | None
    max_concurrent: int | None
    weight: int
    schedule_revision: int
    created_at: datetime
    updated_at: datetime


def schema_of(tenant_id: TenantId) -> str:
    """Return the name of a tenant's schema; ids are short enough never to be cut at 63 bytes."""
    return f"tenant_{tenant_id}"


# Statements that a fleet repeats are put together once.
_ADD = (
    insert(tenant)
    .values(
        id=bindparam("id"),
        schema_name=bindparam("schema_name"),
        created_at=func.now(),
        updated_at=func.now(),
    )
    .on_conflict_do_nothing()
    .returning(tenant)
)


async def add(connection: AsyncConnection, tenant_id: TenantId) -> TenantRow | None:
    """Insert a tenant; None if it exists: meeting a duplicate is an outcome, not an error."""
    values = {"id": tenant_id, "schema_name": schema_of(tenant_id)}
    row = (await connection.execute(_ADD, values)).one_or_none()
    return None if row is None else _read(row)


_LOCK = select(tenant).where(tenant.c.id == bindparam("tenant_id")).with_for_update()


async def find(connection: AsyncConnection, tenant_id: TenantId) -> TenantRow | None:
    """Return a tenant."""
    row = (await connection.execute(select(tenant).where(tenant.c.id == tenant_id))).one_or_none()
    return None if row is None else _read(row)


async def lock(connection: AsyncConnection, tenant_id: TenantId) -> TenantRow | None:
    """Return a tenant and keep everybody else from changing it until the transaction ends."""
    row = (await connection.execute(_LOCK, {"tenant_id": tenant_id})).one_or_none()
    return None if row is None else _read(row)


async def find_many(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, TenantRow]:
    """Return those of the tenants that exist."""
    statement = select(tenant).where(tenant.c.id == func.any(list(tenant_ids)))
    return {(found := _read(row)).id: found for row in await connection.execute(statement)}


async def list_all(connection: AsyncConnection) -> Sequence[TenantRow]:
    """Return all tenants by id."""
    return [_read(row) for row in await connection.execute(select(tenant).order_by(tenant.c.id))]


async def schedule_caps(connection: AsyncConnection) -> dict[TenantId, int]:
    """Return the tenants that have a cap of their own, with it."""
    statement = select(tenant.c.id, tenant.c.max_schedules).where(
        tenant.c.max_schedules.is_not(None)
    )
    return {TenantId(row.id): row.max_schedules for row in await connection.execute(statement)}


async def set_status(
    connection: AsyncConnection, tenant_id: TenantId, status: TenantStatus, reason: str | None
) -> None:
    """Move a tenant to another part of its life."""
    values = {"status": status.value, "status_reason": reason, "updated_at": func.now()}
    await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


async def set_limits(connection: AsyncConnection, tenant_id: TenantId, limits: Limits) -> None:
    """Set limits of a tenant's own; what is not mentioned stays."""
    if limits:
        values = {**limits, "updated_at": func.now()}
        await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


_RAISE_REVISION = (
    update(tenant)
    .where(tenant.c.id == bindparam("tenant_id"))
    .values(schedule_revision=tenant.c.schedule_revision + 1)
    .returning(tenant.c.schedule_revision, func.pg_notify(SCHEDULES_CHANGED, tenant.c.id))
)


async def raise_revision(connection: AsyncConnection, tenant_id: TenantId) -> int:
    """Say that the tenant's schedules have changed, to those who look and those who listen."""
    raised = await connection.execute(_RAISE_REVISION, {"tenant_id": tenant_id})
    return int(raised.scalar_one())


def _read(row: Row[tuple[object, ...]]) -> TenantRow:
    values = row._mapping
    return TenantRow(**{**values, "status": TenantStatus(values["status"])})
