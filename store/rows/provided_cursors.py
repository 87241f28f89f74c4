"""Cursors by provider: schedules that no manifest declares, and counts per provider."""

import json
from collections.abc import Collection, Mapping

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import MANIFESTS, TenantId
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.schema.tables import schedule_cursor

_cursor = schedule_cursor.c


async def of_tenants(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, list[CursorRow]]:
    """Return the cursors of tenants' schedules that no manifest declares, by name."""
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
    """Count the schedules of tenants from other providers."""
    statement = (
        select(_cursor.tenant_id, func.count())
        .where(_cursor.tenant_id == func.any(list(tenant_ids)), _cursor.provider != provider)
        .group_by(_cursor.tenant_id)
    )
    return {TenantId(tenant): number for tenant, number in await connection.execute(statement)}


async def expressions_of_manifests(connection: AsyncConnection) -> list[str]:
    """Return the distinct timetables of all manifests; a platform has few."""
    statement = select(_cursor.cron_expr).where(_cursor.provider == MANIFESTS).distinct()
    return list(await connection.scalars(statement))


# A locked tenant is being changed or synced. Bounds remove the next occurrence; a fault of the fire
# step keeps it, and no policy clears that fault.
_REVISIT = """
UPDATE tenantcron.tenant AS t
SET synced_revision = -1
FROM (
    SELECT w.id
    FROM tenantcron.tenant AS w
    JOIN (
        SELECT
            c.tenant_id, count(*) AS number,
            bool_or(
                (c.fault IS NOT NULL AND c.next_run_at IS NULL)
                OR c.cron_expr = ANY(%(frequent)s::text[])
            ) AS is_concerned
        FROM tenantcron.schedule_cursor AS c
        WHERE c.provider = %(provider)s
        GROUP BY c.tenant_id
    ) AS has ON has.tenant_id = w.id
    WHERE
        has.is_concerned
        OR has.number > coalesce(
            w.max_schedules, (%(caps)s::jsonb ->> w.id)::integer, %(cap)s
        )
    ORDER BY w.id
    FOR NO KEY UPDATE OF w SKIP LOCKED
) AS wanted
WHERE t.id = wanted.id AND t.schedule_revision = t.synced_revision
"""


async def revisit(
    connection: AsyncConnection, frequent: Collection[str], cap: int, caps: Mapping[TenantId, int]
) -> int:
    """Mark tenants that exceed the bounds or have quarantined schedules as changed."""
    parameters = {
        "provider": MANIFESTS,
        "frequent": list(frequent),
        "cap": cap,
        "caps": json.dumps(dict(caps)),
    }
    return (await connection.exec_driver_sql(_REVISIT, parameters)).rowcount
