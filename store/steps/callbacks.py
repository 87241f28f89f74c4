"""Attempts of remote workers, the database side.

A target with `completion: callback` accepts an attempt and works on it elsewhere. The lease of the
attempt then belongs to the attempt itself, not to the replica that called the target: the replica
may exit, and the attempt holds its slot until its worker reports the end or stops its heartbeats.

The row has the number of the attempt that was handed over, and the digest of its lease. It is
handed over while `handed_over_attempt = attempt`; the next attempt has another number, so no
statement has to clear the columns, in particular not those of the release before.

Who decides:

- **Hand over.** The replica that holds the lease, in one statement, before it calls the target. The
  worker gets a token that has the digest. `lease_until` becomes the time of the first heartbeat at
  the latest, and never less than the replica's own lease.
- **Heartbeat.** A worker with the digest moves `lease_until`, up to the deadline of the attempt. A
  cancellation is the answer to a heartbeat, and stops the renewal.
- **Complete, fail.** A worker with the digest locks the row, and `finish.sql` ends the attempt, as
  it ends every other one.
- **Deliver again.** A broker can deliver the message of an attempt to a second worker while the
  first one works. Each delivery has its own name. A heartbeat with another name than the last one
  is refused until the next one is almost due. After a crash the second worker takes over then.
- **Expire.** Any replica finds `lease_until` in the past (`expired.sql`) and ends the attempt: as
  timed out after its deadline, as cancelled if that was requested, else as lost.
- **Failed call.** The replica that called the target still knows the lease token. A response other
  than 202 ends the attempt with `finish.sql`.

The row lock orders them. The first one to end the attempt wins; each of the others finds no row
with this digest that is RUNNING.

Crash points of the replica:

- Before the hand-over: its lease expires, and the attempt is lost with it, as without callbacks.
- Between hand-over and call: nothing reports, the lease of the attempt expires.
- During the call, before or after the target has accepted: the worker's token is valid since before
  the call. If the worker has the request, it continues. If not, the lease expires. A replica that
  stops or is cut off during the call writes nothing either.
- After the 202: nothing is left to write.

So a callback can arrive at any time from the first byte of the request on, also before the 202.

Hand-overs of a replica, and reports to a process of the API, share a transaction with others that
arrive at the same time: `hand_over_free`, `take_free` and `renew_free` skip rows that another
transaction has locked. A step whose row was skipped, or was not found, is repeated alone with
`hand_over`, `take` or `renew`, which wait for the lock. So a locked row delays its own step only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.arrays import numbers, texts, times, uuids, words
from tenantcron.store.rows.executions import State, state_of
from tenantcron.store.steps.claiming import Claimed, claimed_reader
from tenantcron.store.steps.statements import statement

# The part of the time between two heartbeats after which a silent delivery can be replaced. A
# worker that sends three heartbeats in this time may miss one. The rest is for the next worker.
_ALIVE: Final = 5 / 6


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """The time limits of a remote worker: between two heartbeats, and for the attempt."""

    heartbeat: timedelta
    deadline: datetime
    # Until the first heartbeat; None: as between two.
    first: timedelta | None = None


@dataclass(frozen=True, slots=True)
class HandedOver:
    """An attempt to hand over, with the digest of its lease and its time limits."""

    claimed: Claimed
    digest: str
    limits: RemoteLimits


async def hand_over(connection: AsyncConnection, attempt: HandedOver, at: datetime | None) -> bool:
    """Hand the lease over to the attempt itself; False if the replica has lost it."""
    claimed, limits = attempt.claimed, attempt.limits
    parameters = {
        "id": claimed.id,
        "scheduled_for": claimed.scheduled_for,
        "token": claimed.lease_token,
        "digest": attempt.digest,
        "heartbeat": limits.heartbeat,
        "first": limits.first or limits.heartbeat,
        "deadline": limits.deadline,
        "at": at,
    }
    return (await connection.exec_driver_sql(statement("hand_over"), parameters)).rowcount == 1


async def hand_over_free(
    connection: AsyncConnection, attempts: Sequence[HandedOver], at: datetime | None
) -> set[UUID]:
    """Hand the leases of attempts over whose rows are not locked; return their executions."""
    limits = [attempt.limits for attempt in attempts]
    parameters = {
        "ids": uuids(attempt.claimed.id for attempt in attempts),
        "tokens": uuids(attempt.claimed.lease_token for attempt in attempts),
        "digests": words(attempt.digest for attempt in attempts),
        "heartbeats": words(limit.heartbeat.total_seconds() for limit in limits),
        "firsts": words((limit.first or limit.heartbeat).total_seconds() for limit in limits),
        "deadlines": times(limit.deadline for limit in limits),
        "at": at,
    }
    found = await connection.exec_driver_sql(statement("hand_overs"), parameters)
    return set(found.scalars())


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """What a worker reports: from 0 to 100, and a text; None keeps the last value."""

    percent: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """A report of a worker: its execution, the digest of its lease, and its progress."""

    execution: UUID
    digest: str
    progress: WorkerProgress = WorkerProgress()
    # Which delivery of its message it works on; None: it does not distinguish them.
    delivery: str | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a heartbeat."""

    cancel: bool
    cancel_reason_code: str | None
    cancel_reason: str | None
    deadline: datetime
    heartbeat: timedelta


async def renew(
    connection: AsyncConnection, report: AttemptReport, at: datetime | None
) -> Renewal | None:
    """Renew the lease of an attempt; None if it has ended or its time is up."""
    found = await connection.exec_driver_sql(statement("remote_heartbeat"), _of_one(report, at))
    row = found.one_or_none()
    return None if row is None else Renewal(*tuple(row))


async def renew_free(
    connection: AsyncConnection, reports: Sequence[AttemptReport], at: datetime | None
) -> dict[UUID, Renewal]:
    """Renew the leases of attempts whose rows are not locked, by execution."""
    found = await connection.exec_driver_sql(statement("remote_heartbeats"), _of_all(reports, at))
    return {execution: Renewal(*renewal) for execution, *renewal in map(tuple, found)}


@dataclass(frozen=True, slots=True)
class RunningRemotely:
    """A locked attempt of a remote worker."""

    claimed: Claimed
    cancel_requested: bool
    cancel_reason: str | None


async def take(
    connection: AsyncConnection, report: AttemptReport, at: datetime | None
) -> RunningRemotely | None:
    """Lock a running attempt to end it; None if it has ended or its time is up."""
    found = await connection.exec_driver_sql(statement("remote_attempt"), _of_one(report, at))
    return _running(found).get(report.execution)


async def take_free(
    connection: AsyncConnection, reports: Sequence[AttemptReport], at: datetime | None
) -> dict[UUID, RunningRemotely]:
    """Lock the running attempts that no other transaction has locked, by execution."""
    found = await connection.exec_driver_sql(statement("remote_attempts"), _of_all(reports, at))
    return _running(found)


def _running(found: CursorResult[Any]) -> dict[UUID, RunningRemotely]:
    claimed = claimed_reader(found.keys())
    return {
        row.id: RunningRemotely(
            claimed(row, row.lease_token, row.started_at), row.cancel_requested, row.cancel_reason
        )
        for row in found
    }


def _of_one(report: AttemptReport, at: datetime | None) -> dict[str, object]:
    return {
        "id": report.execution,
        "digest": report.digest,
        "progress": report.progress.percent,
        "progress_text": report.progress.text,
        "delivery": report.delivery,
        "alive": _ALIVE,
        "at": at,
    }


def _of_all(reports: Sequence[AttemptReport], at: datetime | None) -> dict[str, object]:
    return {
        "ids": uuids(report.execution for report in reports),
        "digests": words(report.digest for report in reports),
        "progress": numbers(report.progress.percent for report in reports),
        "progress_texts": texts(report.progress.text for report in reports),
        "deliveries": texts(report.delivery for report in reports),
        "alive": _ALIVE,
        "at": at,
    }


@dataclass(frozen=True, slots=True)
class RecordedEnd:
    """The attempt that was last handed over with a digest, and its end."""

    state: State
    attempt: int
    # The outcome; None: it has not ended, because no replica has recorded its timeout yet.
    outcome: str | None
    # Whether its worker reported the end, not a replica.
    reported: bool
    timed_out: bool
    # Whether it still runs: another delivery of its message is worked on.
    runs: bool = False


async def recorded(
    connection: AsyncConnection, report: AttemptReport, at: datetime | None
) -> RecordedEnd | None:
    """Return the recorded end of an attempt; None: another attempt was handed over since."""
    found = await connection.exec_driver_sql(statement("recorded_attempt"), _of_one(report, at))
    row = found.one_or_none()
    if row is None:
        return None
    return RecordedEnd(
        state_of(row.state),
        row.handed_over_attempt,
        row.outcome,
        row.reported,
        bool(row.timed_out),
        bool(row.runs),
    )
