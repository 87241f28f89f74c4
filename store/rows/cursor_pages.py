"""Pages of cursors: the schedules of all tenants, by tenant and name."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.schema.tables import schedule_cursor

_cursor = schedule_cursor.c
# No index finds a part of a name, so a search reads at most this many cursors.
MOST_SEARCHED = 100_000


class CursorPosition(NamedTuple):
    """A position in the list."""

    tenant_id: str
    schedule_name: str


@dataclass(frozen=True, slots=True)
class CursorFilter:
    """A filter of cursors; None and "" match everything."""

    only: TenantId | None = None
    saga: str | None = None
    enabled: bool | None = None
    # A part of the name.
    containing: str = ""
    # Tenants whose cursors are not wanted.
    without: tuple[TenantId, ...] = ()


async def page(
    connection: AsyncConnection,
    filters: CursorFilter,
    *,
    after: CursorPosition | None,
    limit: int,
) -> list[CursorRow]:
    """Return a page of cursors, in the order of their unique index."""
    ordered = select(schedule_cursor).order_by(_cursor.tenant_id, _cursor.schedule_name)
    if filters.only is not None:
        ordered = ordered.where(_cursor.tenant_id == filters.only)
    if after is not None:
        ordered = ordered.where(tuple_(_cursor.tenant_id, _cursor.schedule_name) > tuple_(*after))
    if filters.saga is not None:
        ordered = ordered.where(_cursor.saga_name == filters.saga)
    if filters.enabled is not None:
        ordered = ordered.where(_cursor.enabled == filters.enabled)
    if filters.without:
        ordered = ordered.where(_cursor.tenant_id != func.all(list(filters.without)))
    if filters.containing:
        searched = ordered.limit(MOST_SEARCHED).subquery()
        contains = searched.c.schedule_name.contains(filters.containing, autoescape=True)
        order = (searched.c.tenant_id, searched.c.schedule_name)
        ordered = select(searched).where(contains).order_by(*order)
    return [CursorRow(*row) for row in await connection.execute(ordered.limit(limit))]
