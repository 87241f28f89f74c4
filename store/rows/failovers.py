"""Rows of `failover` and `failover_loss`: timelines, and attempts lost with an old primary.

`scheduler/replica/failover.py` describes the protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.arrays import texts, times, uuids, words
from tenantcron.store.schema.tables import failover, failover_loss
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.statements import statement

# The first eight digits of a WAL file are its timeline, in hexadecimal.
_TIMELINE = """
SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer
"""
_NOTICE = """
INSERT INTO tenantcron.failover (timeline, noticed_at, worker_id)
VALUES (%(timeline)s, coalesce(%(at)s::timestamptz, statement_timestamp()), %(worker_id)s)
ON CONFLICT (timeline) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An attempt that a replica started, and whether it has recorded its result."""

    claimed: Claimed
    ended: bool


@dataclass(frozen=True, slots=True)
class LossRow:
    """An attempt that is incomplete on the new primary; the fields are the columns."""

    execution_id: UUID
    attempt: int
    timeline: int
    scheduled_for: datetime
    tenant_id: TenantId
    schedule_name: str
    # `claim`: its start is lost; `result`: its result is lost.
    lost: str
    worker_id: str
    noticed_at: datetime


@dataclass(frozen=True, slots=True)
class Losses:
    """The first few losses, and how many there are."""

    rows: tuple[LossRow, ...] = ()
    number: int = 0


async def current_timeline(connection: AsyncConnection) -> int:
    """Return the timeline of the server; it must be a primary."""
    found = await connection.exec_driver_sql(_TIMELINE)
    return int(found.scalar_one())


async def noticed_timeline(connection: AsyncConnection) -> int | None:
    """Return the timeline that was detected last."""
    latest = select(failover.c.timeline).order_by(failover.c.noticed_at.desc()).limit(1)
    found: int | None = await connection.scalar(latest)
    return found


async def notice(
    connection: AsyncConnection, timeline: int, worker_id: str, at: datetime | None
) -> None:
    """Record that a replica has seen a timeline."""
    parameters = {"timeline": timeline, "worker_id": worker_id, "at": at}
    await connection.exec_driver_sql(_NOTICE, parameters)


async def record_losses(
    connection: AsyncConnection,
    remembered: Sequence[Remembered],
    *,
    timeline: int,
    worker_id: str,
    at: datetime | None,
) -> list[LossRow]:
    """Record the attempts that the database lacks; return the new ones."""
    claimed = [attempt.claimed for attempt in remembered]
    parameters = {
        "at": at,
        "timeline": timeline,
        "worker_id": worker_id,
        "ids": uuids(attempt.id for attempt in claimed),
        "scheduled_for": times(attempt.scheduled_for for attempt in claimed),
        "attempts": words(attempt.attempt for attempt in claimed),
        "started_at": times(attempt.started_at for attempt in claimed),
        "ended": words("t" if attempt.ended else "f" for attempt in remembered),
        "tenants": texts(attempt.tenant_id for attempt in claimed),
        "schedules": texts(attempt.schedule_name for attempt in claimed),
    }
    rows = await connection.exec_driver_sql(statement("failover_losses"), parameters)
    return [LossRow(*columns) for columns in map(tuple, rows)]


async def losses(
    connection: AsyncConnection,
    since: datetime,
    *,
    tenants: Sequence[TenantId] | None = None,
    limit: int | None = None,
) -> Losses:
    """Return the losses that were detected since a time, the newest first."""
    chosen = failover_loss.c.noticed_at >= since
    if tenants is not None:
        chosen &= failover_loss.c.tenant_id.in_(tenants)
    order = (failover_loss.c.noticed_at.desc(), failover_loss.c.execution_id)
    rows = await connection.execute(
        select(failover_loss).where(chosen).order_by(*order).limit(limit)
    )
    found = tuple(LossRow(*row) for row in rows)
    if limit is None or len(found) < limit:
        return Losses(found, len(found))
    number = await connection.scalar(select(func.count()).where(chosen))
    return Losses(found, number or 0)


async def forget_old(connection: AsyncConnection, now: datetime, retention: timedelta) -> None:
    """Delete losses older than the retention; timelines stay, because they are few."""
    await connection.execute(
        delete(failover_loss).where(failover_loss.c.noticed_at < now - retention)
    )
