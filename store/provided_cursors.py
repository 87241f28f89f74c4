"""Cursors by their provider: schedules that no manifest declares, and how many others there are."""

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import MANIFESTS, TenantId
from tenantcron.store.schedule_cursors import CursorRow
from tenantcron.store.tables import schedule_cursor

_cursor = schedule_cursor.c


async def of_tenants(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, list[CursorRow]]:
    """Return the cursors of tenants that no manifest declares, by name."""
    statement = (
        select(schedule_cursor)
        .where(_cursor.tenant_id == func.any(list(tenant_ids)), _cursor.provider != MANIFESTS)
        .order_by(_cursor.tenant_id, _cursor.schedule_name)
    )
    found: dict[TenantId, list[CursorRow]] = {}
    for row in await connection.execute(statement):
        cursor = CursorRow(*row)
        found.setdefault(cursor.tenant_id, []).append(cursor)
    return found


async def numbers_of_others(
    connection: AsyncConnection, provider: str, tenant_ids: Collection[TenantId]
) -> dict[TenantId, int]:
    """Count the schedules of tenants that other providers have."""
    statement = (
        select(_cursor.tenant_id, func.count())
        .where(_cursor.tenant_id == func.any(list(tenant_ids)), _cursor.provider != provider)
        .group_by(_cursor.tenant_id)
    )
    return {TenantId(tenant): number for tenant, number in await connection.execute(statement)}
