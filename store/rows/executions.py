"""Rows of `execution`: states, ids, and operations of operators."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha1
from typing import Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import AnyActor
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.steps import suspects

# A change would fire occurrences twice that are being fired at the same time.
_OCCURRENCES = UUID("6f1c3f2a-6c0e-5b63-9d0e-3d1f0c3a7b54")
# The two highest bits of that digit are always 10.
_VARIANTS = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}


class State(StrEnum):
    """Where an execution is in its life; see docs/scheduler.md for the chart."""

    # Fired, triggered or retried manually; a claim starts it.
    PENDING = "PENDING"
    # Claimed; its worker finishes it, or another replica when the lease has expired.
    RUNNING = "RUNNING"
    # Its last attempt failed or was lost; a claim starts the next one.
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    # Failed, with no attempt left; an operator can retry it.
    DEAD = "DEAD"
    # Never started, by a rule of its schedule, its tenant or the limits.
    SKIPPED = "SKIPPED"
    # Never started, because no scheduler ran in time.
    MISSED = "MISSED"
    # Ended by an operator, by the next occurrence, or with its schedule or tenant between attempts.
    CANCELLED = "CANCELLED"


# The previous release writes this for RETRYING.
_OLD_RETRYING = "FAILED"


def state_of(stored: str) -> State:
    """Return the state for the value of a column."""
    return State.RETRYING if stored == _OLD_RETRYING else State(stored)


def stored_states(states: Iterable[State]) -> list[str]:
    """Return the values that the column may have for these states."""
    values = [state.value for state in states]
    return [*values, _OLD_RETRYING] if State.RETRYING in values else values


def execution_id(schedule_id: UUID, scheduled_for: datetime) -> UUID:
    """Return the id of the execution of an occurrence, the same on every replica."""
    return UUID(execution_id_hex(schedule_id, scheduled_for))


def execution_id_hex(schedule_id: UUID, scheduled_for: datetime) -> str:
    """Return the same id as text, like `uuid5`, at a fraction of the cost."""
    moment = scheduled_for if scheduled_for.tzinfo is UTC else scheduled_for.astimezone(UTC)
    name = f"{schedule_id}|{moment.isoformat()}".encode()
    digest = sha1(_OCCURRENCES.bytes + name, usedforsecurity=False).hexdigest()
    variant = _VARIANTS[digest[16]]
    return f"{digest[:12]}5{digest[13:16]}{variant}{digest[17:32]}"


_SKIP_WAITING = """
UPDATE tenantcron.execution
SET
    state = CASE WHEN attempt > 0 THEN 'CANCELLED' ELSE 'SKIPPED' END,
    reason_code = %(reason_code)s,
    reason = %(detail)s,
    finished_at = coalesce(%(at)s::timestamptz, statement_timestamp())
WHERE
    schedule_id = ANY(%(schedule_ids)s::uuid[]) AND state IN ('PENDING', 'RETRYING', 'FAILED')
    AND (actor_source <> 'manual' OR %(manual)s)
RETURNING state
"""


async def skip_waiting(  # noqa: PLR0913 -- the parameters of one statement
    connection: AsyncConnection,
    schedule_ids: Sequence[UUID],
    reason_code: ReasonCode,
    at: datetime | None,
    *,
    detail: str | None = None,
    manual: bool = False,
) -> Counter[tuple[State, str]]:
    """End pending executions of schedules that may not start any more; count them by state.

    Call it in the transaction that disables the schedules, after updating the cursors: firing locks
    these rows, so no new execution can appear in between. Manually triggered executions are kept,
    unless `manual` is set.
    """
    if not schedule_ids:
        return Counter()
    parameters = {
        "schedule_ids": list(schedule_ids),
        "reason_code": reason_code.value,
        "detail": detail,
        "at": at,
        "manual": manual,
    }
    rows = await connection.exec_driver_sql(_SKIP_WAITING, parameters)
    return Counter((State(row.state), reason_code.value) for row in rows)


# Like the row of an occurrence, except for the actor and the start deadline.
_TRIGGER = """
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempts_allowed, actor_id, actor_type, actor_source, created_at,
    requires
)
SELECT
    gen_random_uuid(), tenant_id, schedule_id, schedule_name, saga_name, definition_id, now.now,
    'PENDING', %(overlap)s, %(priority)s, now.now, %(attempts_allowed)s, %(actor_id)s,
    %(actor_type)s, 'manual', now.now, %(requires)s
FROM
    tenantcron.schedule_cursor,
    (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS now
WHERE schedule_id = %(schedule_id)s
RETURNING id, scheduled_for
"""


@dataclass(frozen=True, slots=True)
class Manual:
    """A manually triggered execution: its settings and its actor."""

    schedule_id: UUID
    overlap: str
    priority: int
    attempts_allowed: int
    actor: AnyActor
    # What a replica needs to run it.
    requires: str


async def trigger(
    connection: AsyncConnection, manual: Manual, at: datetime | None
) -> tuple[UUID, datetime] | None:
    """Insert an execution that may start now, without a start deadline; None: no cursor."""
    parameters = {
        "schedule_id": manual.schedule_id,
        "overlap": manual.overlap,
        "priority": manual.priority,
        "attempts_allowed": manual.attempts_allowed,
        "actor_id": manual.actor.id,
        "actor_type": manual.actor.type.value,
        "requires": manual.requires,
        "at": at,
    }
    row = (await connection.exec_driver_sql(_TRIGGER, parameters)).one_or_none()
    return None if row is None else (row.id, row.scheduled_for)


class ExecutionKey(Protocol):
    """What identifies the row of an execution, and its partition."""

    @property
    def id(self) -> UUID:
        """The id."""

    @property
    def scheduled_for(self) -> datetime:
        """The nominal time."""


def _keys(rows: Sequence[ExecutionKey]) -> dict[str, object]:
    return {
        "ids": [row.id for row in rows],
        "scheduled_for": sorted({row.scheduled_for for row in rows}),
    }


# It waits for the previous execution, like every retry: with `skip` it would end immediately, with
# `cancel_running` it would replace a later one. A cancellation of earlier attempts does not apply.
# An execution that killed its worker runs alone again, and its earlier losses do not count.
# A request to stop the work of an earlier attempt must not reach the new one (`left_work`).
_RETRY = """
UPDATE tenantcron.execution
SET
    state = 'PENDING',
    reason = NULL,
    reason_code = NULL,
    overlap = CASE overlap WHEN 'allow' THEN overlap ELSE 'queue' END,
    attempts_allowed = attempt + %(more_attempts)s,
    not_before = greatest(
        coalesce(%(at)s::timestamptz, statement_timestamp()), stopping_until
    ),
    start_deadline = NULL,
    finished_at = NULL,
    cancel_requested_at = NULL,
    cancel_reason = NULL,
    cancel_reason_code = NULL,
    losses = 0,
    suspicion = least(suspicion, %(alone)s)
WHERE
    id = ANY(%(ids)s::uuid[]) AND scheduled_for = ANY(%(scheduled_for)s::timestamptz[])
    AND state IN ('DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
"""


async def retry(
    connection: AsyncConnection,
    rows: Sequence[ExecutionKey],
    *,
    more_attempts: int,
    at: datetime | None,
) -> None:
    """Make ended executions pending again; the caller has locked and checked them."""
    parameters = {
        **_keys(rows),
        "more_attempts": more_attempts,
        "alone": suspects.ALONE,
        "at": at,
    }
    await connection.exec_driver_sql(_RETRY, parameters)


# A running execution is asked to stop, and its worker ends it. A pending one ends here. A remote
# worker that has not begun would keep its lease for as long as its request may wait in a queue.
_CANCEL = """
UPDATE tenantcron.execution
SET
    state = CASE state WHEN 'RUNNING' THEN state ELSE 'CANCELLED' END,
    reason = CASE state WHEN 'RUNNING' THEN reason ELSE %(reason)s END,
    reason_code = CASE state WHEN 'RUNNING' THEN reason_code ELSE %(reason_code)s END,
    finished_at = CASE state
        WHEN 'RUNNING' THEN finished_at ELSE coalesce(%(at)s::timestamptz, statement_timestamp())
    END,
    cancel_requested_at = coalesce(%(at)s::timestamptz, statement_timestamp()),
    cancel_reason = %(reason)s,
    cancel_reason_code = %(reason_code)s,
    lease_until = CASE
        WHEN state = 'RUNNING' AND handed_over_attempt = attempt
        THEN least(
            lease_until,
            coalesce(%(at)s::timestamptz, statement_timestamp()) + 2 * heartbeat_every
        )
        ELSE lease_until
    END
WHERE
    id = ANY(%(ids)s::uuid[]) AND scheduled_for = ANY(%(scheduled_for)s::timestamptz[])
    AND state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')
"""


async def cancel(
    connection: AsyncConnection, rows: Sequence[ExecutionKey], *, reason: str, at: datetime | None
) -> None:
    """Cancel executions that have not ended; the caller has locked and checked them."""
    parameters = {
        **_keys(rows),
        "reason": reason,
        "reason_code": ReasonCode.CANCELLED.value,
        "at": at,
    }
    await connection.exec_driver_sql(_CANCEL, parameters)
