"""Rows of `execution` and `execution_attempt` for display: lists, single rows, counts.

The steps of the scheduler have their own statements. Operators change rows with the functions in
`executions`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    DateTime,
    Interval,
    Text,
    bindparam,
    case,
    func,
    select,
    text,
    true,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.schedules.execution_reasons import ReasonCode, reason_forms, reason_text
from tenantcron.store.connection.times import NOW
from tenantcron.store.rows.executions import State, state_of, stored_states
from tenantcron.store.schema.tables import execution, execution_attempt

_row = execution.c
# Time spans are aligned to it: those of 15 minutes begin at full quarters of an hour.
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
WAITING = (State.PENDING, State.RETRYING)


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """An execution; the fields are columns, without the lease token, which is a secret."""

    id: UUID
    tenant_id: TenantId
    schedule_id: UUID
    schedule_name: str
    saga_name: str
    definition_id: UUID
    scheduled_for: datetime
    state: State
    # In words.
    reason: str | None
    overlap: str
    priority: int
    not_before: datetime
    start_deadline: datetime | None
    attempt: int
    attempts_allowed: int
    lease_until: datetime | None
    worker_id: str | None
    actor_id: str
    actor_type: str
    actor_source: str
    covers_from: datetime | None
    missed_count: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    losses: int
    suspicion: int
    # What a replica needs to run it; None: fired by the previous release and not decided yet.
    requires: str | None
    # See `schedules.execution_reasons`; None: no reason, or one that the previous release wrote.
    reason_code: str | None = None
    cancel_reason_code: str | None = None
    # The attempt that was last handed over to a remote worker, and what that reported.
    handed_over_attempt: int | None = None
    handed_over_at: datetime | None = None
    heartbeat_at: datetime | None = None
    attempt_deadline: datetime | None = None
    progress: int | None = None
    progress_text: str | None = None

    @property
    def is_task(self) -> bool:
        """Whether a client submitted it: a task has no schedule but itself."""
        return self.schedule_id == self.id

    @property
    def is_remote(self) -> bool:
        """Whether a remote worker runs, or ran, its last attempt."""
        return self.handed_over_attempt is not None and self.handed_over_attempt == self.attempt


COLUMNS = [_row[name] for name in ExecutionRow.__dataclass_fields__]


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt; the fields are the columns after those of its execution."""

    attempt: int
    worker_id: str
    started_at: datetime
    finished_at: datetime
    outcome: str
    error: str | None
    http_status: int | None
    answer: str | None
    # The last log lines and the result of its handler.
    log: str | None = None
    result: JsonValue = None


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """A filter of executions; None and empty match everything."""

    tenant: TenantId | None = None
    schedule: str | None = None
    states: tuple[State, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    # The first and the last id, to look up a prefix of an id.
    ids: tuple[UUID, UUID] | None = None
    saga: str | None = None
    # A part of the reason in words. No index has it, so the other filters decide what is read.
    error: str | None = None


def conditions(filters: ExecutionFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter."""
    found: list[ColumnElement[bool]] = []
    if filters.tenant is not None:
        found.append(_row.tenant_id == filters.tenant)
    if filters.schedule is not None:
        found.append(_row.schedule_name == filters.schedule)
    if filters.states:
        found.append(_row.state.in_(stored_states(filters.states)))
    if filters.since is not None:
        found.append(_row.scheduled_for >= filters.since)
    if filters.until is not None:
        found.append(_row.scheduled_for < filters.until)
    if filters.ids is not None:
        found.append(_row.id.between(*filters.ids))
    if filters.saga is not None:
        found.append(_row.saga_name == filters.saga)
    if filters.error is not None:
        found.append(func.strpos(func.lower(_reason_in_words()), filters.error.lower()) > 0)
    return found


def _reason_in_words() -> ColumnElement[str]:
    """Return the reason as `reason_text` does, except for the cause of an automatic pause."""
    forms = reason_forms()
    without = case({code: form[0] for code, form in forms.items()}, value=_row.reason_code)
    within = case(
        {code: form[1] for code, form in forms.items()}, value=_row.reason_code, else_="{}"
    )
    detail = func.nullif(_row.reason, "")
    return func.coalesce(func.replace(within, "{}", detail), without, "")


async def newest(
    connection: AsyncConnection, filters: ExecutionFilter, limit: int
) -> list[ExecutionRow]:
    """Return executions, the newest first."""
    found = select(*COLUMNS).where(*conditions(filters))
    if filters.tenant is not None and filters.schedule is None:
        # Use the tenant's index: with the index of the newest executions, the search for a tenant
        # that has not run for long would scan the history of all tenants.
        found = found.offset(0)
    rows = found.subquery()
    statement = (
        select(rows)
        .order_by(rows.c.scheduled_for.desc(), rows.c.created_at.desc(), rows.c.id)
        .limit(limit)
    )
    return [read_row(row) for row in await connection.execute(statement)]


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """A position in the list of executions, which is ordered by time and id."""

    scheduled_for: datetime
    id: UUID


async def page(
    connection: AsyncConnection,
    filters: ExecutionFilter,
    *,
    before: HistoryPosition | None,
    limit: int,
) -> list[ExecutionRow]:
    """Return a page of executions, the newest first.

    Two indexes have this order, one for all executions and one per tenant.
    """
    found = select(*COLUMNS).where(*conditions(filters))
    if before is not None:
        position = tuple_(_row.scheduled_for, _row.id)
        found = found.where(position < tuple_(before.scheduled_for, before.id))
    if filters.ids is None:
        ordered = found.order_by(_row.scheduled_for.desc(), _row.id.desc())
    else:
        # Few ids have the prefix: find them by the primary key, then sort them.
        rows = found.offset(0).subquery()
        ordered = select(rows).order_by(rows.c.scheduled_for.desc(), rows.c.id.desc())
    return [read_row(row) for row in await connection.execute(ordered.limit(limit))]


async def with_ids_between(
    connection: AsyncConnection, first: UUID, last: UUID, limit: int
) -> list[ExecutionRow]:
    """Return executions in a range of ids, to look up a prefix of an id."""
    statement = select(*COLUMNS).where(_row.id.between(first, last)).order_by(_row.id).limit(limit)
    return [read_row(row) for row in await connection.execute(statement)]


async def lock(connection: AsyncConnection, found: ExecutionRow) -> ExecutionRow | None:
    """Lock a row until the end of the transaction, and return its current version."""
    statement = (
        select(*COLUMNS)
        .where(_row.id == found.id, _row.scheduled_for == found.scheduled_for)
        .with_for_update()
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else read_row(row)


async def attempts_of(connection: AsyncConnection, found: ExecutionRow) -> list[AttemptRow]:
    """Return the finished attempts of an execution, in order."""
    columns = execution_attempt.c
    statement = (
        select(*(columns[name] for name in AttemptRow.__dataclass_fields__))
        .where(columns.execution_id == found.id, columns.scheduled_for == found.scheduled_for)
        .order_by(columns.attempt)
    )
    attempts = [AttemptRow(*row) for row in await connection.execute(statement)]
    own = _own_attempt(found)
    if own is not None and own.attempt not in {attempt.attempt for attempt in attempts}:
        attempts.append(own)
    return attempts


def _own_attempt(found: ExecutionRow) -> AttemptRow | None:
    """Return the successful attempt from the row of its execution.

    `finish.sql` writes a row for it only if it has a response, a log or a result.
    """
    if found.state is not State.SUCCEEDED:
        return None
    if found.worker_id is None or found.started_at is None or found.finished_at is None:
        return None
    return AttemptRow(
        attempt=found.attempt,
        worker_id=found.worker_id,
        started_at=found.started_at,
        finished_at=found.finished_at,
        outcome="SUCCEEDED",
        error=None,
        http_status=None,
        answer=None,
    )


async def unfinished_of(
    connection: AsyncConnection, tenant_id: TenantId, schedule_id: UUID
) -> list[ExecutionRow]:
    """Return the running and pending executions of a schedule, the oldest first."""
    states = (State.PENDING, State.RUNNING, State.RETRYING)
    of_schedule = (_row.tenant_id == tenant_id, _row.schedule_id == schedule_id)
    statement = (
        select(*COLUMNS)
        .where(*of_schedule, _row.state.in_(stored_states(states)))
        .order_by(_row.scheduled_for, _row.id)
    )
    return [read_row(row) for row in await connection.execute(statement)]


async def running_by_tenant(connection: AsyncConnection) -> dict[TenantId, int]:
    """Count running executions by tenant."""
    statement = (
        select(_row.tenant_id, func.count())
        .where(_row.state == State.RUNNING)
        .group_by(_row.tenant_id)
    )
    return {TenantId(tenant): number for tenant, number in await connection.execute(statement)}


async def running_overall(connection: AsyncConnection) -> int:
    """Count running executions of all tenants, even for a caller that sees only one tenant."""
    return int(await connection.scalar(text("SELECT tenantcron.running_now()")) or 0)


@dataclass(frozen=True, slots=True)
class Queue:
    """Executions that are ready to start: how many, and since when the oldest one."""

    number: int
    oldest: datetime | None


async def queue(connection: AsyncConnection, at: datetime | None) -> Queue:
    """Return the executions that are ready to start."""
    statement = select(func.count(), func.min(_row.not_before)).where(
        _row.state.in_(stored_states(WAITING)), _row.not_before <= NOW
    )
    return Queue(*(await connection.execute(statement, {"at": at})).one())


async def with_missed_heartbeats(connection: AsyncConnection, limit: int) -> list[ExecutionRow]:
    """Return executions that wait for a retry because their remote worker was silent."""
    missed = _row.reason_code == ReasonCode.HEARTBEAT_MISSED.value
    statement = (
        select(*COLUMNS)
        .where(_row.state == State.RETRYING, missed)
        .order_by(_row.scheduled_for, _row.id)
        .limit(limit)
    )
    return [read_row(row) for row in await connection.execute(statement)]


async def with_dead_leases(
    connection: AsyncConnection, longer_than: timedelta, at: datetime | None, limit: int
) -> list[ExecutionRow]:
    """Return running executions whose lease expired longer ago than that."""
    statement = (
        select(*COLUMNS)
        .where(
            _row.state == State.RUNNING,
            _row.lease_until < NOW - bindparam("longer_than", type_=Interval),
        )
        .order_by(_row.lease_until)
        .limit(limit)
    )
    rows = await connection.execute(statement, {"at": at, "longer_than": longer_than})
    return [read_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The number of executions of one time span in one state."""

    since: datetime
    state: State
    number: int


async def outcomes(
    connection: AsyncConnection, filters: ExecutionFilter, *, span: timedelta, most: int
) -> list[Outcomes]:
    """Count the newest `most` executions by time span and state.

    It uses the index of the newest executions, of all tenants or of one, so that it does not read
    older history.
    """
    newest_first = (
        select(_row.scheduled_for, _row.state)
        .where(*conditions(filters))
        .order_by(_row.scheduled_for.desc(), _row.id.desc())
        .limit(most)
        .subquery()
    )
    since = func.date_bin(
        bindparam("span", span, type_=Interval),
        newest_first.c.scheduled_for,
        bindparam("origin", _ORIGIN, type_=DateTime(timezone=True)),
    ).label("since")
    statement = select(since, newest_first.c.state, func.count()).group_by(
        since, newest_first.c.state
    )
    rows = await connection.execute(statement)
    return [Outcomes(since, state_of(state), number) for since, state, number in rows]


async def latest_of(
    connection: AsyncConnection, tenant: TenantId, schedules: Sequence[str], limit: int
) -> dict[str, list[ExecutionRow]]:
    """Return the newest executions of each schedule, the newest first, in one statement."""
    names = func.unnest(bindparam("names", list(schedules), type_=ARRAY(Text))).table_valued("name")
    each = (
        select(*COLUMNS)
        .where(_row.tenant_id == tenant, _row.schedule_name == names.c.name)
        .order_by(_row.scheduled_for.desc())
        .limit(limit)
        .lateral()
    )
    statement = select(each).select_from(names.join(each, true()))
    found: dict[str, list[ExecutionRow]] = {name: [] for name in schedules}
    for row in map(read_row, await connection.execute(statement)):
        found[row.schedule_name].append(row)
    return {
        name: sorted(rows, key=lambda row: row.scheduled_for, reverse=True)
        for name, rows in found.items()
    }


def read_row(row: Sequence[object]) -> ExecutionRow:
    """Return the execution of a row with `COLUMNS`."""
    read = ExecutionRow(*row)  # type: ignore[arg-type] # as `COLUMNS`
    words = reason_text(read.reason_code, read.reason)
    return replace(read, state=state_of(read.state), reason=words)
