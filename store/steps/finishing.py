"""Finish and lease, the database side.

A replica that claims an execution gets a lease with a unique token. Every change of a running
execution carries the token, and is refused if the row has another one or none: the result of a
worker that stalled past its lease changes nothing. Heartbeats renew leases. The next replica that
checks finds an expired lease and ends the attempt as "worker lost", with the same statement. The
lease of an attempt that was handed over to a remote worker belongs to the attempt; `callbacks` has
that protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.schedules.pause import AUTO_PAUSED
from tenantcron.store.connection.arrays import numbers, texts, uuids, words
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.claiming import Claimed, Lease, Unstarted, claimed_reader
from tenantcron.store.steps.sharing import SCARCE_FOR, charge
from tenantcron.store.steps.statements import statement


class EndedAttempt(NamedTuple):
    """How an attempt ended and what becomes of its execution."""

    claimed: Claimed
    state: State
    # See `schedules.execution_reasons`; a newer release may stop it with a code not listed there.
    reason_code: str | None
    detail: str | None
    # The delay until the next attempt, if there is one.
    wait: timedelta
    outcome: str
    error: str | None
    auto_pause_after: int
    # The response of an HTTP target.
    http_status: int | None = None
    answer: str | None = None
    # How many attempts in a row were lost, including this one.
    suspicion: int = 0
    # The last log lines of its handler, and its result as JSON.
    log: str | None = None
    result: str | None = None
    # Whether the attempt was lost with its replica, which does not count as an attempt.
    is_loss: bool = False

    @property
    def reason(self) -> str | None:
        """The reason in words."""
        return reason_text(self.reason_code, self.detail)

    @property
    def is_plain(self) -> bool:
        """Whether it succeeded without a response, log or result to store."""
        return (
            self.state is State.SUCCEEDED
            and self.http_status is None
            and self.log is None
            and self.result is None
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """The refused results, and the schedules that were paused after failures."""

    refused: frozenset[Lease]
    paused: tuple[UUID, ...]
    # Whether a pending execution could use the slots.
    waiting: bool
    # Cancelled executions with code and detail, including failed ones that had been asked to stop.
    cancelled: Mapping[UUID, tuple[str, str | None]] = field(default_factory=dict)
    # The time of the statement.
    at: datetime | None = None

    def is_refused(self, claimed: Claimed) -> bool:
        """Whether the result of this claim was refused, which is rare."""
        return bool(self.refused) and claimed.lease in self.refused

    def as_written(self, ended: EndedAttempt) -> EndedAttempt:
        """Return the recorded end: a failed execution that was asked to stop is cancelled."""
        if ended.claimed.id not in self.cancelled:
            return ended
        code, detail = self.cancelled[ended.claimed.id]
        return ended._replace(state=State.CANCELLED, reason_code=code, detail=detail)

    def __add__(self, other: "Finished") -> "Finished":
        """Combine two results."""
        return Finished(
            self.refused | other.refused,
            self.paused + other.paused,
            self.waiting or other.waiting,
            {**self.cancelled, **other.cancelled},
            other.at or self.at,
        )


async def finish(
    connection: AsyncConnection,
    ended: Sequence[EndedAttempt],
    *,
    requires: Sequence[str] | None,
    actor_id: str,
    at: datetime | None,
) -> Finished:
    """Record how attempts ended, except for those that have lost their lease.

    `requires` is what the replica can run, None for anything: the result includes whether any such
    execution is pending.
    """
    # Nearly all are plain, and for those only the id and the token are sent.
    detailed: list[EndedAttempt] = []
    plain: list[EndedAttempt] = []
    for result in ended:
        (plain if result.is_plain else detailed).append(result)
    claims = [result.claimed for result in detailed + plain]
    parameters = {
        "at": at,
        "actor_id": actor_id,
        "cancelled": ReasonCode.CANCELLED.value,
        "auto_paused": AUTO_PAUSED,
        "requires": None if requires is None else list(requires),
        "ids": uuids(claimed.id for claimed in claims),
        "tokens": uuids(claimed.lease_token for claimed in claims),
        "states": words(result.state.value for result in detailed),
        "reason_codes": texts(result.reason_code for result in detailed),
        "reasons": texts(result.detail for result in detailed),
        "waits": words(result.wait.total_seconds() for result in detailed),
        "outcomes": words(result.outcome for result in detailed),
        "errors": texts(result.error for result in detailed),
        "auto_pause_after": words(result.auto_pause_after for result in detailed),
        "http_statuses": numbers(result.http_status for result in detailed),
        "answers": texts(result.answer for result in detailed),
        "suspicions": words(result.suspicion for result in detailed),
        "logs": texts(result.log for result in detailed),
        "results": texts(result.result for result in detailed),
        "lost": words(str(result.is_loss).lower() for result in detailed),
        "scarce_for": SCARCE_FOR,
    }
    found = await connection.exec_driver_sql(statement("finish"), parameters)
    row = found.one()
    refused = frozenset(zip(row.refused_ids, row.refused_tokens, strict=True))
    if row.scarce_since is not None:
        recorded = [claimed for claimed in claims if claimed.lease not in refused]
        await charge(connection, recorded, row.scarce_since, row.now)
    return Finished(
        refused=refused,
        paused=tuple(row.paused),
        waiting=row.waiting,
        cancelled={
            execution: (code, detail)
            for execution, code, detail in zip(
                row.cancelled, row.cancel_codes, row.cancel_details, strict=True
            )
        },
        at=row.now,
    )


@dataclass(frozen=True, slots=True)
class Held:
    """A renewed lease; it has a reason if the execution has to stop."""

    id: UUID
    lease_token: UUID
    cancel_reason: str | None


async def heartbeat(
    connection: AsyncConnection,
    claimed: Sequence[Claimed | Unstarted],
    *,
    lease: timedelta,
    at: datetime | None,
) -> list[Held]:
    """Renew leases and return them; lost leases are not returned."""
    parameters = {
        "at": at,
        "lease": lease,
        "ids": uuids(execution.id for execution in claimed),
        "tokens": uuids(execution.lease_token for execution in claimed),
    }
    rows = await connection.exec_driver_sql(statement("heartbeat"), parameters)
    return [Held(*columns) for columns in map(tuple, rows)]


@dataclass(frozen=True, slots=True)
class RemoteAttempt:
    """An attempt of a remote worker: whether its time is up, and its time limits."""

    timed_out: bool
    timeout: timedelta
    heartbeat: timedelta


@dataclass(frozen=True, slots=True)
class Expired:
    """An execution whose worker has not renewed the lease."""

    claimed: Claimed
    worker_id: str
    cancel_requested: bool
    # None: the replica itself ran the attempt.
    remote: "RemoteAttempt | None" = None


async def take_expired(
    connection: AsyncConnection, batch: int, at: datetime | None
) -> list[Expired]:
    """Lock executions whose lease has expired; this transaction ends their attempts."""
    parameters = {"at": at, "batch": batch}
    rows = await connection.exec_driver_sql(statement("expired"), parameters)
    claimed = claimed_reader(rows.keys())
    return [
        Expired(
            claimed(row, row.lease_token, row.started_at),
            row.worker_id,
            row.cancel_requested,
            RemoteAttempt(row.timed_out, row.timeout, row.heartbeat_every)
            if row.handed_over
            else None,
        )
        for row in rows
    ]
