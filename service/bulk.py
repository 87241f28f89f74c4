"""Bulk operations for the API and the command line: pages of matching rows, and previews.

A page is read with the rights of the caller. The operation then locks these rows only, so it
cannot change a row that the caller may not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar
from uuid import UUID

from tenantcron.core.names import TenantId
from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.scheduler.operate.bulk import EXECUTIONS_A_BATCH, SCHEDULES_A_BATCH
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.responses.bulk import execution_preview_as_json, schedule_preview_as_json
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse, BulkSchedulesResponse
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import bulk_executions, bulk_schedules
from tenantcron.store.rows.bulk_schedules import PauseFilter
from tenantcron.store.rows.cursor_pages import CursorPosition
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow, HistoryPosition
from tenantcron.store.rows.schedule_cursors import CursorRow

Row = TypeVar("Row")

# A dry run counts no further, so that its cost has a bound.
MOST_COUNTED: Final = 100_000
_SHOWN: Final = 10
_BETWEEN: Final = "/"


@dataclass(frozen=True, slots=True)
class BulkPage(Generic[Row]):
    """The rows of a batch, and the position of the next one; None after the last."""

    rows: Sequence[Row]
    next: str | None


async def executions_page(
    reading: Database, filters: ExecutionFilter, after: str | None
) -> BulkPage[ExecutionRow]:
    """Return the executions of the next batch."""
    position = None if after is None else _history_position(after)
    async with reading.transaction() as connection:
        if filters.tenant is not None:
            await existing_tenant(connection, filters.tenant)
        rows = await bulk_executions.page(
            connection, filters, after=position, limit=EXECUTIONS_A_BATCH
        )
    is_last = len(rows) < EXECUTIONS_A_BATCH
    return BulkPage(rows, None if is_last else _execution_position(rows[-1]))


async def preview_executions(reading: Database, filters: ExecutionFilter) -> BulkExecutionsResponse:
    """Return what a bulk operation on executions matches."""
    async with reading.transaction() as connection:
        if filters.tenant is not None:
            await existing_tenant(connection, filters.tenant)
        counts = await bulk_executions.counts(connection, filters, most=MOST_COUNTED)
        first = await bulk_executions.page(connection, filters, after=None, limit=_SHOWN)
    return execution_preview_as_json(counts, first, MOST_COUNTED)


async def schedules_page(
    reading: Database, filters: PauseFilter, after: str | None, at: datetime | None = None
) -> BulkPage[CursorRow]:
    """Return the schedules of the next batch."""
    position = None if after is None else _cursor_position(after)
    async with reading.transaction() as connection:
        if filters.tenant is not None:
            await existing_tenant(connection, filters.tenant)
        rows = await bulk_schedules.page(
            connection, filters, at, after=position, limit=SCHEDULES_A_BATCH
        )
    is_last = len(rows) < SCHEDULES_A_BATCH
    last = None if is_last else _BETWEEN.join((rows[-1].tenant_id, rows[-1].schedule_name))
    return BulkPage(rows, last)


async def preview_schedules(
    reading: Database, filters: PauseFilter, at: datetime | None = None
) -> BulkSchedulesResponse:
    """Return what a bulk operation on schedules matches."""
    async with reading.transaction() as connection:
        if filters.tenant is not None:
            await existing_tenant(connection, filters.tenant)
        counts = await bulk_schedules.counts(connection, filters, at, most=MOST_COUNTED)
        first = await bulk_schedules.page(connection, filters, at, after=None, limit=_SHOWN)
    return schedule_preview_as_json(counts, first, MOST_COUNTED)


def _execution_position(row: ExecutionRow) -> str:
    return f"{row.scheduled_for.isoformat()}{_BETWEEN}{row.id}"


def _history_position(after: str) -> HistoryPosition:
    time, _, execution = after.partition(_BETWEEN)
    try:
        scheduled_for = datetime.fromisoformat(time)
        position = HistoryPosition(scheduled_for, UUID(execution))
    except ValueError as error:
        raise _invalid_position() from error
    if scheduled_for.tzinfo is None:
        raise _invalid_position()
    return position


def _cursor_position(after: str) -> CursorPosition:
    tenant, between, schedule = after.partition(_BETWEEN)
    if not between or not after.isprintable():
        raise _invalid_position()
    return CursorPosition(TenantId(tenant), schedule)


def _invalid_position() -> ApiProblem:
    error = {"in": "body", "name": "after", "message": "use the value of `next` of a batch"}
    return invalid("`after` is not a position of this operation", error)
