"""Rows of `execution` for bulk operations: pages in the order of an index, counts, locks.

Ended executions are read by time and id, like the lists. Live ones are read by id: the live
partition has no index by time, and sorting it for every page would be quadratic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ARRAY, DateTime, Uuid, bindparam, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows.execution_history import (
    COLUMNS,
    ExecutionFilter,
    ExecutionRow,
    HistoryPosition,
    conditions,
    read_row,
)
from tenantcron.store.rows.executions import State, stored_states
from tenantcron.store.schema.tables import execution

LIVE = (State.PENDING, State.RETRYING, State.RUNNING)

_row = execution.c


async def page(
    connection: AsyncConnection,
    filters: ExecutionFilter,
    *,
    after: HistoryPosition | None,
    limit: int,
) -> list[ExecutionRow]:
    """Return a page of executions; the states of the filter are either live ones or final ones."""
    found = select(*COLUMNS).where(*conditions(filters))
    if is_live(filters):
        found = found if after is None else found.where(_row.id > after.id)
        found = found.order_by(_row.id)
    else:
        if after is not None:
            position = tuple_(_row.scheduled_for, _row.id)
            found = found.where(position > tuple_(after.scheduled_for, after.id))
        found = found.order_by(_row.scheduled_for, _row.id)
    return [read_row(row) for row in await connection.execute(found.limit(limit))]


def is_live(filters: ExecutionFilter) -> bool:
    """Whether a filter matches executions that have not ended."""
    return set(filters.states) <= set(LIVE)


@dataclass(frozen=True, slots=True)
class SagaCount:
    """The number of matching executions of a saga of a tenant."""

    tenant: TenantId
    saga: str
    number: int


async def counts(
    connection: AsyncConnection, filters: ExecutionFilter, *, most: int
) -> list[SagaCount]:
    """Count at most `most` executions by tenant and saga, the largest number first."""
    found = select(_row.tenant_id, _row.saga_name).where(*conditions(filters))
    if not is_live(filters):
        # Otherwise Postgres may prefer to read the history in full, expecting to stop early.
        found = found.order_by(_row.scheduled_for, _row.id)
    some = found.limit(most).subquery()
    number = func.count().label("number")
    statement = (
        select(some.c.tenant_id, some.c.saga_name, number)
        .group_by(some.c.tenant_id, some.c.saga_name)
        .order_by(number.desc(), some.c.tenant_id, some.c.saga_name)
    )
    return [SagaCount(*row) for row in await connection.execute(statement)]


async def lock(
    connection: AsyncConnection, rows: Sequence[ExecutionRow], states: Sequence[State]
) -> list[ExecutionRow]:
    """Lock those rows that still have one of the states and that no other transaction locks.

    It never waits, so it cannot deadlock with replicas, which lock the same rows in other orders.
    """
    if not rows:
        return []
    statement = (
        select(*COLUMNS)
        .where(
            _row.id == func.any(bindparam("ids", type_=ARRAY(Uuid))),
            _row.scheduled_for
            == func.any(bindparam("times", type_=ARRAY(DateTime(timezone=True)))),
            _row.state.in_(stored_states(states)),
        )
        .order_by(_row.id)
        .with_for_update(skip_locked=True)
    )
    keys = {"ids": [row.id for row in rows], "times": sorted({row.scheduled_for for row in rows})}
    return [read_row(row) for row in await connection.execute(statement, keys)]
