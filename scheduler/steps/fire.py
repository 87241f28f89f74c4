"""Fire: turn due cursors into executions, in batches.

One transaction locks a batch of due cursors, computes their due occurrences, inserts the executions
and moves the cursors. There is no leader: any replica may take any batch, and a crash rolls the
batch back. A cursor that cannot be evaluated is quarantined with its error in the same transaction,
so it neither fails again at once nor stops the others.

If the database rejects a row of a batch because of its values, the batch is halved until the
rejected cursor is found, and that one is quarantined. If the database rejects every cursor of a
batch, none of them is the cause: that is an error of the database, and all of them stay due.

After a long downtime a batch can be expensive, because every missed occurrence is computed. So a
batch also ends after `STEPS_A_BATCH` occurrences, and the remaining cursors stay due.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import CATCH_UP
from tenantcron.core.errors import TenantcronError
from tenantcron.cron.zones import tz_version
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.definitions import DefinitionResult, Readable, UnreadableError
from tenantcron.scheduler.steps.due import DueOccurrences, PlannedExecution, due
from tenantcron.schedules.execution_reasons import reason_text
from tenantcron.schedules.settings import Overlap, Priority, ScheduleSettings
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.prepared import FEW
from tenantcron.store.rows.executions import State
from tenantcron.store.steps import claiming, firing, glances
from tenantcron.store.steps.firing import DueCursor, Move, NewExecution, Taken
from tenantcron.targets.capabilities import Capabilities

log = structlog.get_logger(__name__)

CURSORS_A_BATCH = 250
STEPS_A_BATCH = 50_000

# Errors caused by the values of a row. All others are errors of the database.
_REFUSED = (DataError, IntegrityError)

# Priorities as stored: the lowest number starts first.
RANKS = {priority: number for number, priority in enumerate(Priority)}


_Write = Callable[[AsyncConnection, Replica, Taken, "_Batch"], Awaitable[int]]
# A step in the transaction of a batch, with the number of executions that are ready to start.
Then = Callable[[AsyncConnection, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of a batch; `more` means that more cursors are due."""

    executions: int = 0
    quarantined: int = 0
    more: bool = False

    def plus(self, other: "Fired") -> "Fired":
        """Return the result of both batches."""
        return Fired(
            self.executions + other.executions,
            self.quarantined + other.quarantined,
            self.more or other.more,
        )


async def fire_batch(replica: Replica) -> Fired:
    """Fire one batch of due cursors."""
    try:
        return await _fire_batch(replica, _fire, CURSORS_A_BATCH)
    except _REFUSED:
        return await _fire_batch(replica, _fire_by_halves, CURSORS_A_BATCH)


async def fire_few_and(replica: Replica, then: Then) -> Fired:
    """Fire a small batch and run a step in its transaction; an error of either undoes both."""
    return await _fire_batch(replica, _fire, FEW, then)


async def _fire_batch(
    replica: Replica, write: _Write, most: int, then: Then | None = None
) -> Fired:
    transaction = replica.database.transaction(by_key=True, is_small=most <= FEW)
    async with transaction as connection:
        taken = await firing.take_due(connection, most, replica.clock())
        if taken is None:
            return Fired()
        ids = {cursor.definition_id for cursor in taken.cursors}
        oldest = taken.now - replica.settings.retention
        batch = _evaluate(taken, await replica.definitions.read(connection, ids), oldest)
        inserted = await write(connection, replica, taken, batch)
        _blame(batch)
        await firing.quarantine(connection, batch.faults)
        if then is not None:
            await then(connection, batch.ready(taken.now))
    _count(replica, batch, inserted)
    _report(taken, batch)
    if batch.is_for_others(replica.capabilities):
        await glances.notify_work(replica.database, claiming.FOR_OTHERS)
    more = batch.left or len(taken.cursors) == most
    return Fired(inserted, len(batch.faults), more)


@dataclass(slots=True)
class _Batch:
    """The moves and executions of a batch of cursors."""

    moves: list[Move] = field(default_factory=list)
    executions: list[NewExecution] = field(default_factory=list)
    faults: dict[UUID, str] = field(default_factory=dict)
    # The cursors whose rows the database has rejected.
    refused: dict[UUID, DBAPIError] = field(default_factory=dict)
    steps: int = 0
    # Whether cursors remain for the next batch.
    left: bool = False

    def is_for_others(self, own: Capabilities) -> bool:
        """Whether only other replicas can run some executions, so they must be notified."""
        return any(
            execution.state is State.PENDING and not own.names(execution.requires)
            for execution in self.executions
        )

    def ready(self, now: datetime) -> int:
        """Return how many executions can start now."""
        return sum(
            execution.state is State.PENDING and execution.not_before <= now
            for execution in self.executions
        )

    def halves(self) -> tuple["_Batch", "_Batch"]:
        """Split the batch in two; both halves share `refused`."""
        middle = len(self.moves) // 2
        return self._of(self.moves[:middle]), self._of(self.moves[middle:])

    def _of(self, moves: list[Move]) -> "_Batch":
        ids = {move.schedule_id for move in moves}
        rows = [execution for execution in self.executions if execution.schedule_id in ids]
        return replace(self, moves=moves, executions=rows)


async def _fire(connection: AsyncConnection, replica: Replica, taken: Taken, batch: _Batch) -> int:
    return await firing.fire(
        connection,
        batch.moves,
        batch.executions,
        actor_id=replica.actor.id,
        tz_version=tz_version(),
        now=taken.now,
    )


async def _fire_by_halves(
    connection: AsyncConnection, replica: Replica, taken: Taken, batch: _Batch
) -> int:
    """Write a rejected batch except for the cursors that cause the rejection."""
    if not batch.moves:
        return 0
    try:
        async with connection.begin_nested():
            return await _fire(connection, replica, taken, batch)
    except _REFUSED as error:
        if len(batch.moves) == 1:
            batch.refused[batch.moves[0].schedule_id] = error
            return 0
    first, second = batch.halves()
    inserted = await _fire_by_halves(connection, replica, taken, first)
    return inserted + await _fire_by_halves(connection, replica, taken, second)


def _blame(batch: _Batch) -> None:
    """Add rejected cursors to the faults, unless all were rejected."""
    if len(batch.refused) == len(batch.moves) > 1:
        raise next(iter(batch.refused.values()))
    batch.faults |= {key: first_line(error.orig) for key, error in batch.refused.items()}


def _evaluate(taken: Taken, definitions: dict[UUID, DefinitionResult], oldest: datetime) -> _Batch:
    batch = _Batch()
    for cursor in taken.cursors:
        if batch.steps >= STEPS_A_BATCH:
            batch.left = True
            break
        try:
            definition = _readable(definitions[cursor.definition_id])
            due_now = due(cursor, definition.settings, taken.now, oldest)
        except TenantcronError as error:
            batch.faults[cursor.schedule_id] = str(error)
            continue
        _add(batch, cursor, definition, due_now)
    return batch


def _readable(definition: DefinitionResult) -> Readable:
    if isinstance(definition, UnreadableError):
        # A new error each time: the cached one would collect a traceback per cursor.
        raise UnreadableError(str(definition))
    return definition


def _add(batch: _Batch, cursor: DueCursor, definition: Readable, due_now: DueOccurrences) -> None:
    batch.steps += due_now.steps
    batch.moves.append(
        Move(cursor.schedule_id, cursor.next_run_at, due_now.last_run_at, due_now.next_run_at)
    )
    requires, settings = definition.required(cursor.saga_name), definition.settings
    batch.executions += [
        new_execution(cursor.schedule_id, settings, requires, planned)
        for planned in due_now.planned
    ]


def new_execution(
    schedule_id: UUID, settings: ScheduleSettings, requires: str, planned: PlannedExecution
) -> NewExecution:
    """Return the row of a planned occurrence."""
    return NewExecution(
        schedule_id=schedule_id,
        scheduled_for=planned.scheduled_for,
        state=planned.state,
        reason_code=planned.reason_code,
        detail=planned.detail,
        overlap=_overlap(settings, planned),
        priority=RANKS[settings.priority],
        not_before=planned.not_before,
        start_deadline=planned.start_deadline,
        attempts_allowed=settings.retry.max_attempts,
        source=planned.source,
        covers_from=planned.covers_from,
        missed_count=planned.missed_count,
        requires=requires,
    )


def _overlap(settings: ScheduleSettings, planned: PlannedExecution) -> str:
    """Return the overlap policy; a catch-up with `skip` queues, or it would always be skipped."""
    if planned.source == CATCH_UP and settings.overlap is Overlap.SKIP:
        return Overlap.QUEUE.value
    return settings.overlap.value


def _count(replica: Replica, batch: _Batch, inserted: int) -> None:
    replica.counts.fired += inserted
    if inserted < len(batch.executions):
        return  # some existed before, and finding out which is not worth a query
    ended: Counter[tuple[State, str]] = Counter(
        (row.state, row.reason_code) for row in batch.executions if row.reason_code is not None
    )
    replica.counts.note_unstarted(ended)


def _report(taken: Taken, batch: _Batch) -> None:
    """Log quarantined cursors and missed occurrences, but not each execution."""
    cursors = {cursor.schedule_id: cursor for cursor in taken.cursors}
    for schedule_id, fault in batch.faults.items():
        cursor = cursors[schedule_id]
        log.error(
            "cursor_set_aside",
            tenant=cursor.tenant_id,
            schedule=cursor.schedule_name,
            error=fault,
        )
    for row in _missed(batch.executions):
        cursor = cursors[row.schedule_id]
        log.warning(
            "occurrences_missed",
            tenant=cursor.tenant_id,
            schedule=cursor.schedule_name,
            since=_iso(row.covers_from or row.scheduled_for),
            until=_iso(row.scheduled_for),
            count=row.missed_count + 1,
            reason_code=row.reason_code,
            reason=reason_text(row.reason_code, row.detail),
        )
    log.debug("fired", cursors=len(batch.moves), executions=len(batch.executions))


def _missed(executions: Iterable[NewExecution]) -> list[NewExecution]:
    return [row for row in executions if row.state is State.MISSED]


def _iso(moment: datetime) -> str:
    return moment.isoformat()
