"""Bulk operations: retry and cancel many executions, pause and resume many schedules.

A bulk operation is a sequence of batches, and a batch is one transaction:

1. A page of matching rows is read, in the order of an index. Its last row is the position of the
   next batch, so one run reads each row once, even if a retried execution fails again meanwhile.
2. The transaction locks those rows that still have a state of the filter, and checks each like a
   single operation. A row that may not change is refused with the reason; the others are changed.
3. Each changed row gets its own audit record, in the same transaction.

Interrupted at any point, whole batches are done and no part of one. Changed rows no longer match,
so the same call again does the rest. Executions that another transaction has locked are skipped:
waiting for many rows could deadlock with replicas. Cursors are locked in the order of their ids, as
everywhere.

A bulk pause leaves schedules alone that are already paused, so it does not replace the reason or
the end of another operator's pause.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from tenantcron.core.values import JsonObject
from tenantcron.scheduler.operate.operator import Operator, recorded_state
from tenantcron.scheduler.operate.refusals import (
    OperationError,
    refuse_cancel,
)
from tenantcron.scheduler.operate.retry_checks import read_retry_checks
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows import (
    audit_records,
    bulk_executions,
    bulk_schedules,
    executions,
    schedule_cursors,
)
from tenantcron.store.rows.audit_records import EXECUTION, PAUSE, RecordedEntity
from tenantcron.store.rows.bulk_schedules import PauseFilter
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.steps import claiming

T = TypeVar("T")

EXECUTIONS_A_BATCH: Final = 500
# A resume computes the occurrences of each pause.
SCHEDULES_A_BATCH: Final = 200
# The states that are meant if none is named.
RETRIED_BY_DEFAULT: Final = (State.DEAD,)
CANCELLED_BY_DEFAULT: Final = (State.PENDING, State.RETRYING)


@dataclass(frozen=True, slots=True)
class RefusedExecution:
    """An execution that may not change, and why."""

    row: ExecutionRow
    detail: str


@dataclass(frozen=True, slots=True)
class ExecutionBatch:
    """The result of a batch of executions."""

    changed: int
    refused: list[RefusedExecution]
    # Rows that another transaction was changing, or had changed since they were read.
    skipped: int


@dataclass(frozen=True, slots=True)
class ScheduleBatch:
    """The result of a batch of schedules."""

    changed: int
    skipped: int
    # Pending executions that pauses ended.
    ended: int = 0
    # Occurrences of lifted pauses that were recorded as skipped.
    skipped_occurrences: int = 0


async def retry_executions(
    operator: Operator, page: Sequence[ExecutionRow], filters: ExecutionFilter
) -> ExecutionBatch:
    """Queue a page of ended executions again."""
    async with operator.acting() as connection:
        rows = await bulk_executions.lock(connection, page, filters.states)
        checks = await read_retry_checks(connection, rows)
        allowed, refused = _checked(rows, checks.attempts_of)
        by_attempts: dict[int, list[ExecutionRow]] = defaultdict(list)
        for row, attempts in allowed:
            by_attempts[attempts].append(row)
        for attempts, alike in by_attempts.items():
            await executions.retry(connection, alike, more_attempts=attempts, at=operator.clock())
        changed = _entities(row for row, _ in allowed)
        await audit_records.record_each(
            connection, operator.who, changed, entity_type=EXECUTION, operation="retry"
        )
        await claiming.notify(connection, "retry")
    return ExecutionBatch(len(changed), refused, len(page) - len(rows))


async def cancel_executions(
    operator: Operator,
    page: Sequence[ExecutionRow],
    filters: ExecutionFilter,
    reason: str | None,
) -> ExecutionBatch:
    """End a page of pending executions; ask running ones to stop if the filter names them."""
    why = operator.cancel_reason(reason)
    async with operator.acting() as connection:
        rows = await bulk_executions.lock(connection, page, filters.states)
        allowed, refused = _checked(rows, refuse_cancel)
        cancelled = [row for row, _ in allowed]
        await executions.cancel(connection, cancelled, reason=why, at=operator.clock())
        after: JsonObject = {"reason": why}
        await audit_records.record_each(
            connection,
            operator.who,
            _entities(cancelled),
            entity_type=EXECUTION,
            operation="cancel",
            after=after,
        )
        await claiming.notify(connection, claiming.CANCEL)
    return ExecutionBatch(len(cancelled), refused, len(page) - len(rows))


async def pause_schedules(  # noqa: PLR0913 -- the page and the pause
    operator: Operator,
    page: Sequence[CursorRow],
    filters: PauseFilter,
    *,
    reason: str,
    until: datetime | None,
    cancel_pending: bool,
) -> ScheduleBatch:
    """Pause a page of schedules; a trigger records each pause."""
    at = operator.clock()
    async with operator.acting() as connection:
        await operator.refuse_past(connection, until)
        rows = await bulk_schedules.lock(connection, page, filters, at)
        ids = [row.schedule_id for row in rows]
        by = operator.who.changed_by
        await schedule_cursors.pause(connection, ids, by=by, reason=reason, until=until, at=at)
        stopped = ids if cancel_pending else []
        ended = await executions.skip_waiting(
            connection, stopped, ReasonCode.PAUSED, at, detail=reason
        )
    return ScheduleBatch(len(rows), len(page) - len(rows), ended=ended.total())


async def resume_schedules(
    operator: Operator, page: Sequence[CursorRow], filters: PauseFilter, reason: str | None
) -> ScheduleBatch:
    """Lift the pauses of a page of schedules; a trigger records each."""
    async with operator.acting() as connection:
        rows = await bulk_schedules.lock(connection, page, filters, operator.clock())
        skipped = await operator.record_skipped(connection, rows)
        await schedule_cursors.resume(connection, [row.schedule_id for row in rows])
        if reason is not None:
            entities = [
                RecordedEntity(f"{row.tenant_id}/{row.schedule_name}", row.tenant_id)
                for row in rows
            ]
            after: JsonObject = {"reason": reason}
            await audit_records.record_each(
                connection,
                operator.who,
                entities,
                entity_type=PAUSE,
                operation="reason",
                after=after,
            )
    return ScheduleBatch(len(rows), len(page) - len(rows), skipped_occurrences=skipped)


def _checked(
    rows: Sequence[ExecutionRow], check: Callable[[ExecutionRow], T]
) -> tuple[list[tuple[ExecutionRow, T]], list[RefusedExecution]]:
    """Return the rows that pass the check of a single operation with its result, and the others."""
    allowed: list[tuple[ExecutionRow, T]] = []
    refused: list[RefusedExecution] = []
    for row in rows:
        try:
            allowed.append((row, check(row)))
        except OperationError as error:
            refused.append(RefusedExecution(row, str(error)))
    return allowed, refused


def _entities(rows: Iterable[ExecutionRow]) -> list[RecordedEntity]:
    return [RecordedEntity(str(row.id), row.tenant_id, recorded_state(row)) for row in rows]
