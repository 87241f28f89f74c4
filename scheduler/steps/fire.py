"""Fire: due cursors become executions, batch by batch.

One transaction takes due cursors (each by one replica only), reckons what each of them owes, writes
the executions and moves the cursors. There is no leader: any replica may take any batch, and a
crash leaves the batch as if nobody had. A cursor that cannot be evaluated is set aside with its
error, in the same transaction, so that it neither comes up again at once nor stops the others. If
the database refuses the rows of a batch for what is in them, the batch is halved until the culprit
stands alone, and that one is set aside, too. But if it refuses each of several, none is the
culprit: that is an error of the database, and all stay due.

A long downtime can make a batch expensive, because every missed occurrence is counted. So a batch
also ends when it has looked at `STEPS_A_BATCH` occurrences; the cursors that are left stay due.
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
from tenantcron.scheduler.steps.definitions import Definition, Readable, UnreadableError
from tenantcron.scheduler.steps.due import Due, Planned, due
from tenantcron.schedules.settings import Overlap, Priority, ScheduleSettings
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.rows.executions import State
from tenantcron.store.steps import claiming, firing, glances
from tenantcron.store.steps.firing import DueCursor, Move, NewExecution, Taken
from tenantcron.targets.capabilities import Capabilities

log = structlog.get_logger(__name__)

CURSORS_A_BATCH = 250
STEPS_A_BATCH = 50_000

# What is in the rows. Any other error is about the database, and none of the cursors' fault.
_REFUSED = (DataError, IntegrityError)

# Priorities as the column has them: 0 goes first.
RANKS = {priority: number for number, priority in enumerate(Priority)}


_Write = Callable[[AsyncConnection, Replica, Taken, "_Batch"], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a batch; `more` says that cursors are left that are due."""

    executions: int = 0
    set_aside: int = 0
    more: bool = False


async def fire_batch(replica: Replica) -> Fired:
    """Fire one batch of what is due."""
    try:
        return await _fire_batch(replica, _fire)
    except _REFUSED:
        return await _fire_batch(replica, _fire_by_halves)


async def _fire_batch(replica: Replica, write: _Write) -> Fired:
    async with replica.database.transaction(by_key=True) as connection:
        taken = await firing.take_due(connection, CURSORS_A_BATCH, replica.clock())
        if taken is None:
            return Fired()
        ids = {cursor.definition_id for cursor in taken.cursors}
        oldest = taken.now - replica.settings.retention
        batch = _reckon(taken, await replica.definitions.read(connection, ids), oldest)
        inserted = await write(connection, replica, taken, batch)
        _blame(batch)
        await firing.set_aside(connection, batch.faults)
    _count(replica, batch, inserted)
    _report(taken, batch)
    if batch.is_for_others(replica.capabilities):
        await glances.tell_work(replica.database, claiming.FOR_OTHERS)
    more = batch.left or len(taken.cursors) == CURSORS_A_BATCH
    return Fired(inserted, len(batch.faults), more)


@dataclass(slots=True)
class _Batch:
    """What the cursors of a batch owe."""

    moves: list[Move] = field(default_factory=list)
    executions: list[NewExecution] = field(default_factory=list)
    faults: dict[UUID, str] = field(default_factory=dict)
    # The cursors whose rows the database has refused.
    refused: dict[UUID, DBAPIError] = field(default_factory=dict)
    steps: int = 0
    # Whether cursors were left for the next batch.
    left: bool = False

    def is_for_others(self, own: Capabilities) -> bool:
        """Whether other replicas have to run some of it. They look by themselves only seldom."""
        return any(
            one.state is State.PENDING and not own.names(one.requires) for one in self.executions
        )

    def halves(self) -> tuple["_Batch", "_Batch"]:
        """Return the batch in two; both put what is refused on the same list."""
        middle = len(self.moves) // 2
        return self._of(self.moves[:middle]), self._of(self.moves[middle:])

    def _of(self, moves: list[Move]) -> "_Batch":
        ids = {one.schedule_id for one in moves}
        rows = [one for one in self.executions if one.schedule_id in ids]
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
    """Write a batch that is refused, all but what it is refused for."""
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
    """Put what was refused to the faults, unless everything was."""
    if len(batch.refused) == len(batch.moves) > 1:
        raise next(iter(batch.refused.values()))
    batch.faults |= {one: first_line(error.orig) for one, error in batch.refused.items()}


def _reckon(taken: Taken, definitions: dict[UUID, Definition], oldest: datetime) -> _Batch:
    batch = _Batch()
    for cursor in taken.cursors:
        if batch.steps >= STEPS_A_BATCH:
            batch.left = True
            break
        try:
            definition = _readable(definitions[cursor.definition_id])
            owed = due(cursor, definition.settings, taken.now, oldest)
        except TenantcronError as error:
            batch.faults[cursor.schedule_id] = str(error)
            continue
        _add(batch, cursor, definition, owed)
    return batch


def _readable(definition: Definition) -> Readable:
    if isinstance(definition, UnreadableError):
        # A new one each time: the kept one would gather a traceback of every cursor.
        raise UnreadableError(str(definition))
    return definition


def _add(batch: _Batch, cursor: DueCursor, definition: Readable, owed: Due) -> None:
    batch.steps += owed.steps
    batch.moves.append(
        Move(cursor.schedule_id, cursor.next_run_at, owed.last_run_at, owed.next_run_at)
    )
    requires, settings = definition.required(cursor.saga_name), definition.settings
    batch.executions += [
        new_execution(cursor.schedule_id, settings, requires, planned) for planned in owed.planned
    ]


def new_execution(
    schedule_id: UUID, settings: ScheduleSettings, requires: str, planned: Planned
) -> NewExecution:
    """Return the row of a planned occurrence."""
    return NewExecution(
        schedule_id=schedule_id,
        scheduled_for=planned.scheduled_for,
        state=planned.state,
        reason=planned.reason,
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


def _overlap(settings: ScheduleSettings, planned: Planned) -> str:
    """What is caught up waits for the one before it, where others would be skipped."""
    if planned.source == CATCH_UP and settings.overlap is Overlap.SKIP:
        return Overlap.QUEUE.value
    return settings.overlap.value


def _count(replica: Replica, batch: _Batch, inserted: int) -> None:
    replica.counts.fired += inserted
    if inserted < len(batch.executions):
        return  # some were there before; which of them is not worth a question
    unstarted = (one for one in batch.executions if one.state is not State.PENDING)
    replica.counts.note_unstarted(Counter((one.state, one.reason or "") for one in unstarted))


def _report(taken: Taken, batch: _Batch) -> None:
    """Say what is worth a line: not each occurrence, but what went wrong or was given up."""
    cursors = {cursor.schedule_id: cursor for cursor in taken.cursors}
    for schedule_id, fault in batch.faults.items():
        cursor = cursors[schedule_id]
        log.error(
            "cursor_set_aside",
            tenant=cursor.tenant_id,
            schedule=cursor.schedule_name,
            error=fault,
        )
    for one in _given_up(batch.executions):
        cursor = cursors[one.schedule_id]
        log.warning(
            "occurrences_missed",
            tenant=cursor.tenant_id,
            schedule=cursor.schedule_name,
            since=_iso(one.covers_from or one.scheduled_for),
            until=_iso(one.scheduled_for),
            count=one.missed_count + 1,
            reason=one.reason,
        )
    log.debug("fired", cursors=len(batch.moves), executions=len(batch.executions))


def _given_up(executions: Iterable[NewExecution]) -> list[NewExecution]:
    return [one for one in executions if one.state is State.MISSED]


def _iso(moment: datetime) -> str:
    return moment.isoformat()
