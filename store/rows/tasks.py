"""Rows of `task`: single rows, pages, rescheduling and retention.

`store.steps.submit` adds rows and has the protocol. A task without `fired_at` waits; everything
later is the state of its execution, which has the same id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, Select, func, literal, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.schedules.execution_reasons import reason_text
from tenantcron.store.schema.tables import execution, task
from tenantcron.store.steps.claiming import TASK_SOON, notify

# A page with filters reads at most this many tasks, and then ends early.
MOST_SEARCHED: Final = 10_000
# Old tasks are deleted in batches of this size.
MOST_FORGOTTEN: Final = 10_000
# As `soon` in tenantcron.submit_tasks_at: schedulers find tasks that are due later by themselves.
_SOON: Final = timedelta(seconds=15)


class TaskState(StrEnum):
    """The state of a task: WAITING, then those of its execution."""

    WAITING = "WAITING"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task, and what its execution adds; the first fields are columns of `task`."""

    id: UUID
    tenant_id: TenantId
    saga_name: str
    execute_at: datetime
    # From 0 (critical) to 3 (low).
    priority: int
    # Settings other than the defaults; `schedules.task_request.task_settings` reads them.
    definition: JsonObject | None
    payload: JsonObject
    idempotency_key: str | None
    # What a replica needs to run it.
    requires: str
    submitted_at: datetime
    actor_id: str
    actor_type: str
    actor_source: str
    authenticated: bool
    # When its execution was inserted; None: it waits.
    fired_at: datetime | None
    state: TaskState
    reason_code: str | None
    # In words.
    reason: str | None
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def scheduled_for(self) -> datetime | None:
        """The time of its execution; None: it waits and has none."""
        return None if self.fired_at is None else min(self.execute_at, self.fired_at)


_of_task = [task.c[name] for name in list(TaskRow.__dataclass_fields__)[:15]]
_of_execution = ("state", "reason_code", "reason", "attempt", "started_at", "finished_at")


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """A filter of tasks; None and empty match everything."""

    tenant: TenantId | None = None
    saga: str | None = None
    states: tuple[TaskState, ...] = ()
    # Bounds of `execute_at`.
    since: datetime | None = None
    until: datetime | None = None
    # The first and the last id, to look up a prefix.
    ids: tuple[UUID, UUID] | None = None

    @property
    def is_search(self) -> bool:
        """Whether tasks are read that may not match."""
        return bool(self.saga or self.states or self.since or self.until)


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks in the order of submission, the newest first, and where the next page begins."""

    tasks: tuple[TaskRow, ...]
    # The id after which the next page begins; None: this is the last page.
    after: UUID | None


async def find(connection: AsyncConnection, task_id: UUID) -> TaskRow | None:
    """Return a task, None if it does not exist."""
    found = select(*_of_task).where(task.c.id == task_id)
    rows = await _rows(connection, _with_executions(found))
    return rows[0] if rows else None


async def lock(connection: AsyncConnection, task_id: UUID) -> TaskRow | None:
    """Lock a task until the end of the transaction, and return it as it is now.

    Lock the execution as well to change it (`execution_history.lock`).
    """
    await connection.execute(select(task.c.id).where(task.c.id == task_id).with_for_update())
    # A new statement: its snapshot is newer than the lock.
    return await find(connection, task_id)


async def page(
    connection: AsyncConnection, filters: TaskFilter, *, after: UUID | None, limit: int
) -> TaskPage:
    """Return a page of tasks, the newest first.

    Only the order of submission has an index. So a page with other filters searches at most
    `MOST_SEARCHED` tasks. It may have fewer tasks than the limit, or none, and still be continued.
    """
    found = select(*_of_task).order_by(task.c.id.desc())
    if filters.tenant is not None:
        found = found.where(task.c.tenant_id == filters.tenant)
    if filters.ids is not None:
        found = found.where(task.c.id.between(*filters.ids))
    if after is not None:
        found = found.where(task.c.id < after)
    searched = MOST_SEARCHED if filters.is_search else limit
    matching = _with_executions(found.limit(searched), filters).limit(limit)
    rows = await _rows(connection, matching)
    if len(rows) == limit:
        return TaskPage(tuple(rows), rows[-1].id)
    if not filters.is_search:
        return TaskPage(tuple(rows), None)
    beyond = found.with_only_columns(task.c.id).offset(searched - 1).limit(1)
    return TaskPage(tuple(rows), await connection.scalar(beyond))


def _conditions(filters: TaskFilter, tasks: FromClause) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.saga is not None:
        conditions.append(tasks.c.saga_name == filters.saga)
    if filters.since is not None:
        conditions.append(tasks.c.execute_at >= filters.since)
    if filters.until is not None:
        conditions.append(tasks.c.execute_at < filters.until)
    return conditions


_ALL = TaskFilter()


def _with_executions(found: Select[Any], filters: TaskFilter = _ALL) -> Select[Any]:
    """Filter tasks, and add the columns of the executions, which are looked up by key."""
    tasks = found.subquery()
    own = (
        select(*(execution.c[name] for name in _of_execution))
        .where(
            execution.c.id == tasks.c.id,
            execution.c.scheduled_for == func.least(tasks.c.execute_at, tasks.c.fired_at),
            tasks.c.fired_at.is_not(None),
        )
        .lateral()
    )
    state = func.coalesce(own.c.state, TaskState.WAITING.value)
    joined = (
        select(*tasks.c, state, *(own.c[name] for name in _of_execution[1:]))
        .select_from(tasks.outerjoin(own, true()))
        .where(*_conditions(filters, tasks))
        .order_by(tasks.c.id.desc())
    )
    if not filters.states:
        return joined
    return joined.where(state.in_([literal(wanted.value) for wanted in filters.states]))


async def _rows(connection: AsyncConnection, statement: Select[Any]) -> list[TaskRow]:
    return [_read(row) for row in await connection.execute(statement)]


def _read(row: Sequence[Any]) -> TaskRow:
    read = TaskRow(*row)
    return replace(
        read,
        state=TaskState(read.state),
        reason=reason_text(read.reason_code, read.reason),
        # A waiting task has no execution.
        attempt=read.attempt or 0,
    )


_RESCHEDULE = """
UPDATE tenantcron.task
SET execute_at = greatest(%(execute_at)s, coalesce(%(at)s::timestamptz, statement_timestamp()))
WHERE id = %(id)s AND fired_at IS NULL
RETURNING
    execute_at <= coalesce(%(at)s::timestamptz, statement_timestamp()) + %(soon)s::interval
"""
# Only what was fired so long ago that its month of history was dropped.
_FORGET = """
DELETE FROM tenantcron.task WHERE id = ANY (ARRAY(
    SELECT t.id
    FROM tenantcron.task AS t
    WHERE
        t.fired_at < %(oldest)s
        AND NOT EXISTS (SELECT FROM tenantcron.execution_live AS e WHERE e.id = t.id)
    ORDER BY t.fired_at
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
))
"""


_TOO_FAR: Final = """
SELECT %(execute_at)s > coalesce(%(at)s::timestamptz, statement_timestamp()) + interval '10 years'
"""


async def is_too_far(
    connection: AsyncConnection, execute_at: datetime, at: datetime | None
) -> bool:
    """Whether a task may not wait until then: submissions have the same limit."""
    parameters = {"execute_at": execute_at, "at": at}
    return bool((await connection.exec_driver_sql(_TOO_FAR, parameters)).scalar_one())


async def reschedule(
    connection: AsyncConnection, task_id: UUID, execute_at: datetime, at: datetime | None
) -> bool:
    """Change the time of a waiting task; False if it was fired. A past time means now."""
    parameters = {"id": task_id, "execute_at": execute_at, "at": at, "soon": _SOON}
    row = (await connection.exec_driver_sql(_RESCHEDULE, parameters)).one_or_none()
    if row is not None and row[0]:
        await notify(connection, TASK_SOON)
    return row is not None


async def forget_old(connection: AsyncConnection, now: datetime, kept: timedelta) -> int:
    """Delete a batch of tasks whose executions are no longer in the history, with their keys.

    A month of executions is dropped when all of it is too old, as for definitions.
    """
    parameters = {"oldest": now - kept - timedelta(days=62), "most": MOST_FORGOTTEN}
    return (await connection.exec_driver_sql(_FORGET, parameters)).rowcount
