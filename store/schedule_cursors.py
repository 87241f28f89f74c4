"""Rows of `schedule_cursor`. The provider's refresh and the scheduler write them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, Text, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.tables import schedule_cursor


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's word that a schedule must not fire; a manifest never lifts it."""

    at: datetime
    by: str
    reason: str
    until: datetime | None


_cursor = schedule_cursor.c
_PAUSES = select(
    _cursor.schedule_id,
    _cursor.paused_at,
    _cursor.paused_by,
    _cursor.paused_reason,
    _cursor.paused_until,
).where(
    _cursor.tenant_id == func.any(bindparam("tenant_ids", type_=ARRAY(Text))),
    _cursor.paused_at.is_not(None),
)


async def pauses(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[UUID, Pause]:
    """Return the pauses in force, by schedule id."""
    rows = await connection.execute(_PAUSES, {"tenant_ids": list(tenant_ids)})
    return {
        row.schedule_id: Pause(row.paused_at, row.paused_by, row.paused_reason, row.paused_until)
        for row in rows
    }
