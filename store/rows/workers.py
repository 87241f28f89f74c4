"""Rows of `worker`: the replicas of the scheduler, as they report themselves.

They show which replicas are alive and what they can run. Executions of a lost replica are found by
their leases. These rows only decide which executions no live replica can run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.schema.tables import worker

_REPORT = """
INSERT INTO tenantcron.worker AS w
    (id, service, started_at, seen_at, running, abandoned, draining, capabilities)
VALUES (
    %(id)s, %(service)s, coalesce(%(at)s::timestamptz, statement_timestamp()),
    coalesce(%(at)s::timestamptz, statement_timestamp()),
    %(running)s, %(abandoned)s, %(draining)s, %(capabilities)s::text[]
)
ON CONFLICT (id) DO UPDATE SET
    seen_at = excluded.seen_at, running = excluded.running, abandoned = excluded.abandoned,
    draining = excluded.draining
"""
_WANT = """
UPDATE tenantcron.worker
SET wants = %(requires)s::text[], wants_at = coalesce(%(at)s::timestamptz, statement_timestamp())
WHERE id = %(id)s
"""
# The row of a killed replica stays for a while, but must not make the others wait.
_HAS_OLDER = """
SELECT EXISTS (
    SELECT FROM tenantcron.worker AS older
    JOIN tenantcron.worker AS own ON own.id = %(id)s
    WHERE (older.started_at, older.id) < (own.started_at, own.id)
        AND older.seen_at > own.seen_at - interval '10 minutes'
)
"""
# Killed replicas cannot delete their rows.
_FORGET = "DELETE FROM tenantcron.worker WHERE seen_at < statement_timestamp() - interval '1 day'"


_ALIVE = (
    "SELECT count(*) FROM tenantcron.worker"
    " WHERE seen_at > statement_timestamp() - interval '2 minutes'"
)


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One replica; the fields are the columns, in their order."""

    id: str
    service: str
    started_at: datetime
    seen_at: datetime
    running: int
    abandoned: int
    draining: bool
    # Patterns of what it can run; None: a replica of the previous release, which runs anything.
    capabilities: list[str] | None = None
    wants: list[str] | None = None
    wants_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The report of a replica about itself."""

    id: str
    service: str
    running: int
    abandoned: int
    draining: bool
    capabilities: tuple[str, ...] = ("saga:*", "http")


async def report(
    connection: AsyncConnection, worker_report: WorkerReport, at: datetime | None
) -> None:
    """Record that a replica is alive, and what it does."""
    parameters = {
        "id": worker_report.id,
        "service": worker_report.service,
        "running": worker_report.running,
        "abandoned": worker_report.abandoned,
        "draining": worker_report.draining,
        "capabilities": list(worker_report.capabilities),
        "at": at,
    }
    await connection.exec_driver_sql(_REPORT, parameters)


async def want(
    connection: AsyncConnection, worker_id: str, requires: Sequence[str], at: datetime | None
) -> None:
    """Record what a replica could not start for lack of slots, so that others leave it some."""
    parameters = {"id": worker_id, "requires": list(requires), "at": at}
    await connection.exec_driver_sql(_WANT, parameters)


async def is_oldest(connection: AsyncConnection, worker_id: str) -> bool:
    """Whether no other live replica has been running for longer."""
    found = await connection.exec_driver_sql(_HAS_OLDER, {"id": worker_id})
    return not found.scalar_one()


async def remove(connection: AsyncConnection, worker_id: str) -> None:
    """Delete the row of a replica that stops."""
    await connection.execute(delete(worker).where(worker.c.id == worker_id))


async def forget_old(connection: AsyncConnection) -> None:
    """Delete the rows of replicas that were killed long ago."""
    await connection.exec_driver_sql(_FORGET)


async def count_alive(connection: AsyncConnection) -> int:
    """Count the replicas with a recent report."""
    return int((await connection.exec_driver_sql(_ALIVE)).scalar_one())


async def page(connection: AsyncConnection, *, after: str | None, limit: int) -> list[WorkerRow]:
    """Return a page of replicas, by id."""
    statement = select(worker).order_by(worker.c.id).limit(limit)
    if after is not None:
        statement = statement.where(worker.c.id > after)
    return [WorkerRow(*row) for row in await connection.execute(statement)]


async def list_all(connection: AsyncConnection) -> list[WorkerRow]:
    """Return the replicas, the longest running first."""
    rows = await connection.execute(select(worker).order_by(worker.c.started_at, worker.c.id))
    return [WorkerRow(*row) for row in rows]
