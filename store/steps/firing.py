"""Fire, the database side: lock due cursors, move them, and insert their executions.

All of it is one transaction per batch. If the replica is killed before the commit, nothing happened
and the cursors are due again. If it is killed after the commit, everything happened. Two replicas
never hold the same cursor (SKIP LOCKED). If a cursor is ever moved back, manually or by a restored
backup, the ids of the executions are still those of the occurrences, so nothing is fired again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.pause import Pause, recorded_pause
from tenantcron.store.connection.arrays import rare_texts, texts, times, uuids, words
from tenantcron.store.rows.executions import State, execution_id_hex
from tenantcron.store.steps.statements import statement


class DueCursor(NamedTuple):
    """A cursor with a due occurrence, locked by this transaction."""

    schedule_id: UUID
    tenant_id: TenantId
    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    definition_id: UUID
    next_run_at: datetime
    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None
    paused_until: datetime | None = None
    last_run_at: datetime | None = None
    # Its timetable has no occurrences before this time.
    counts_after: datetime | None = None

    @property
    def pause(self) -> Pause | None:
        """The pause as recorded, which may have ended."""
        return recorded_pause(self.paused_at, self.paused_by, self.paused_reason, self.paused_until)


class Move(NamedTuple):
    """The move of a cursor."""

    schedule_id: UUID
    found_at: datetime
    last_run_at: datetime
    next_run_at: datetime | None


class NewExecution(NamedTuple):
    """The execution of an occurrence, without the columns that come from its cursor."""

    schedule_id: UUID
    scheduled_for: datetime
    state: State
    reason_code: ReasonCode | None
    detail: str | None
    overlap: str
    priority: int
    not_before: datetime
    start_deadline: datetime | None
    attempts_allowed: int
    source: str
    covers_from: datetime | None
    missed_count: int
    # What a replica needs to run it.
    requires: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Due cursors, and the time of the query."""

    cursors: tuple[DueCursor, ...]
    now: datetime


async def take_due(connection: AsyncConnection, batch: int, at: datetime | None) -> Taken | None:
    """Lock due cursors, at most a batch; None if there are none."""
    parameters = {"at": at, "batch": batch}
    found = await connection.exec_driver_sql(statement("due"), parameters)
    rows = found.all()
    if not rows:
        return None
    return Taken(tuple(DueCursor._make(row[:-1]) for row in rows), rows[0][-1])


async def fire(  # noqa: PLR0913 -- the parameters of one statement
    connection: AsyncConnection,
    moves: Sequence[Move],
    executions: Sequence[NewExecution],
    *,
    actor_id: str,
    tz_version: str,
    now: datetime,
) -> int:
    """Move the cursors and insert the executions; return how many executions are new."""
    parameters = {
        "schedule_ids": uuids(move.schedule_id for move in moves),
        "found_at": times(move.found_at for move in moves),
        "next_run_at": times(move.next_run_at for move in moves),
        "last_run_at": times(move.last_run_at for move in moves),
        "ids": words(execution_id_hex(row.schedule_id, row.scheduled_for) for row in executions),
        "of": uuids(row.schedule_id for row in executions),
        "scheduled_for": times(row.scheduled_for for row in executions),
        "state": words(row.state.value for row in executions),
        "reason_code": rare_texts(row.reason_code for row in executions),
        "reason": rare_texts(row.detail for row in executions),
        "overlap": words(row.overlap for row in executions),
        "priority": words(row.priority for row in executions),
        "not_before": times(row.not_before for row in executions),
        "start_deadline": times(row.start_deadline for row in executions),
        "attempts_allowed": words(row.attempts_allowed for row in executions),
        "source": words(row.source for row in executions),
        "covers_from": times(row.covers_from for row in executions),
        "missed_count": words(row.missed_count for row in executions),
        "requires": texts(row.requires for row in executions),
        "actor_id": actor_id,
        "tz_version": tz_version,
        "now": now,
    }
    inserted = await connection.exec_driver_sql(statement("fire"), parameters)
    return inserted.rowcount


_QUARANTINE = """
UPDATE tenantcron.schedule_cursor AS c SET fault = f.fault
FROM unnest(%(schedule_ids)s::uuid[], %(faults)s::text[]) AS f (schedule_id, fault)
WHERE c.schedule_id = f.schedule_id
"""


async def quarantine(connection: AsyncConnection, faults: dict[UUID, str]) -> None:
    """Quarantine cursors that cannot be evaluated, with the reason."""
    if faults:
        parameters = {"schedule_ids": list(faults), "faults": list(faults.values())}
        await connection.exec_driver_sql(_QUARANTINE, parameters)
