"""Rows of `schedule_cursor` for bulk operations: pages by tenant and name, counts, locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Uuid, bindparam, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows.bulk_executions import SagaCount
from tenantcron.store.rows.cursor_pages import CursorPosition
from tenantcron.store.rows.schedule_cursors import IS_PAUSED, CursorRow
from tenantcron.store.schema.tables import schedule_cursor

_cursor = schedule_cursor.c


@dataclass(frozen=True, slots=True)
class PauseFilter:
    """A filter of schedules by their pause; None matches everything."""

    # Whether a pause is in force.
    paused: bool
    tenant: TenantId | None = None
    saga: str | None = None
    # The exact reason of the pause.
    paused_reason: str | None = None


def _conditions(filters: PauseFilter) -> list[ColumnElement[bool]]:
    equal = {
        _cursor.tenant_id: filters.tenant,
        _cursor.saga_name: filters.saga,
        _cursor.paused_reason: filters.paused_reason,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    return [*found, IS_PAUSED if filters.paused else ~IS_PAUSED]


async def page(
    connection: AsyncConnection,
    filters: PauseFilter,
    at: datetime | None,
    *,
    after: CursorPosition | None,
    limit: int,
) -> list[CursorRow]:
    """Return a page of cursors, in the order of their unique index."""
    found = select(schedule_cursor).where(*_conditions(filters))
    if after is not None:
        found = found.where(tuple_(_cursor.tenant_id, _cursor.schedule_name) > tuple_(*after))
    ordered = found.order_by(_cursor.tenant_id, _cursor.schedule_name).limit(limit)
    return [CursorRow(*row) for row in await connection.execute(ordered, {"at": at})]


async def counts(
    connection: AsyncConnection, filters: PauseFilter, at: datetime | None, *, most: int
) -> list[SagaCount]:
    """Count at most `most` schedules by tenant and saga, the largest number first."""
    order = (_cursor.tenant_id, _cursor.schedule_name)
    found = select(_cursor.tenant_id, _cursor.saga_name).where(*_conditions(filters))
    some = found.order_by(*order).limit(most).subquery()
    number = func.count().label("number")
    statement = (
        select(some.c.tenant_id, some.c.saga_name, number)
        .group_by(some.c.tenant_id, some.c.saga_name)
        .order_by(number.desc(), some.c.tenant_id, some.c.saga_name)
    )
    return [SagaCount(*row) for row in await connection.execute(statement, {"at": at})]


async def lock(
    connection: AsyncConnection,
    rows: Sequence[CursorRow],
    filters: PauseFilter,
    at: datetime | None,
) -> list[CursorRow]:
    """Lock those cursors that still match, in the order in which all code locks cursors."""
    statement = (
        select(schedule_cursor)
        .where(_cursor.schedule_id == func.any(bindparam("ids", type_=ARRAY(Uuid))))
        .where(*_conditions(filters))
        .order_by(_cursor.schedule_id)
        .with_for_update(key_share=True)
    )
    parameters = {"ids": [row.schedule_id for row in rows], "at": at}
    return [CursorRow(*row) for row in await connection.execute(statement, parameters)]
