"""Event buses: `event_bus`, the position of each bus, and `bus_event`, the log of placed events.

The protocol, with the reasons, is in docs/decisions/0041:

- a trigger copies placed events from the outbox to the log, while there is a bus;
- `declare` adds a bus, and records that replicas are still configured for it;
- `take` leases a bus to a replica, with its next events;
- `release` records what was published, if the replica still holds the lease;
- `drop_old` drops events that were not published in time, `forget` buses that nothing publishes to.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.outbox import Event
from tenantcron.store.steps.statements import statement


@dataclass(frozen=True, slots=True)
class BusGlance:
    """The pending work of a replica for its bus."""

    # The bus is new, or no replica has been recorded lately.
    is_unseen: bool
    has_due_events: bool


@dataclass(frozen=True, slots=True)
class PlacedEvent:
    """An event of the log, with its tenant."""

    tenant_id: TenantId
    event: Event


@dataclass(frozen=True, slots=True)
class BusLease:
    """A bus that is leased to a replica, with its next events in order."""

    name: str
    token: UUID
    # The number of consecutive failures so far.
    failures: int
    events: tuple[PlacedEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusProgress:
    """The progress of a bus, the delay until its next lease, and its error."""

    # The last published position; 0: none.
    published: int = 0
    # Events among them that the bus will never accept.
    refused: int = 0
    wait: timedelta = timedelta(0)
    failures: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BusHealth:
    """The health of a bus; `oldest` is when its first unpublished event was placed."""

    name: str
    seen_at: datetime
    oldest: datetime | None
    error: str | None
    dropped: int
    dropped_at: datetime | None


async def glance(database: Database, name: str, at: datetime | None) -> BusGlance:
    """Check whether a bus has to be declared, or has events to publish."""
    ((is_unseen, has_events),) = await database.glance(
        statement("bus_glance"), {"name": name, "at": at}
    )
    return BusGlance(bool(is_unseen), bool(has_events))


# A new bus starts with the next event: positions come from the same sequence. An inserted row has
# no xmax.
_DECLARE = """
INSERT INTO tenantcron.event_bus AS b (name, declared_at, seen_at, last_published, due_at)
SELECT %(name)s, clock.now, clock.now, nextval('tenantcron.outbox_id_seq'), clock.now
FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
RETURNING b.xmax = 0
"""


async def declare(connection: AsyncConnection, name: str, at: datetime | None) -> bool:
    """Record that a replica publishes to a bus; return whether the bus is new."""
    found = await connection.exec_driver_sql(_DECLARE, {"name": name, "at": at})
    return bool(found.scalar_one())


async def take(
    connection: AsyncConnection, name: str, *, events: int, lease: timedelta, at: datetime | None
) -> BusLease | None:
    """Lease a bus with its next events; None if it is not due or another replica has it."""
    parameters = {"name": name, "events": events, "lease": lease, "at": at}
    found = await connection.exec_driver_sql(statement("take_bus"), parameters)
    rows = [tuple(row) for row in found]
    if not rows:
        return None
    token, failures, *_ = rows[0]
    placed = tuple(PlacedEvent(row[2], Event(*row[3:])) for row in rows if row[3] is not None)
    return BusLease(name, token, failures, placed)


async def release(
    connection: AsyncConnection, lease: BusLease, progress: BusProgress, at: datetime | None
) -> bool:
    """Record the progress of a bus and release it; False if the lease was lost."""
    parameters = {
        "at": at,
        "name": lease.name,
        "token": lease.token,
        "published": progress.published,
        "refused": progress.refused,
        "wait": progress.wait,
        "failures": progress.failures,
        "error": progress.error,
    }
    found = await connection.exec_driver_sql(statement("release_bus"), parameters)
    return bool(found.scalar_one())


# The log is in the order of time. So the first event that is young enough ends the search, and no
# index on the age is needed. Buses are locked first, as in `release`.
_DROP_OLD = """
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
buses AS MATERIALIZED (
    SELECT b.name, b.last_published FROM tenantcron.event_bus AS b ORDER BY b.name FOR UPDATE
),
young AS MATERIALIZED (
    SELECT e.place
    FROM tenantcron.bus_event AS e, clock
    WHERE e.placed_at >= clock.now - %(kept)s::interval
    ORDER BY e.place
    LIMIT 1
),
gone AS (
    DELETE FROM tenantcron.bus_event AS e
    WHERE e.place < coalesce((SELECT place FROM young), 9223372036854775807)
    RETURNING e.place
)
UPDATE tenantcron.event_bus AS b
SET
    dropped = b.dropped + lost.number, dropped_at = clock.now,
    last_published = greatest(b.last_published, lost.place)
FROM (
    SELECT buses.name, count(*) AS number, max(gone.place) AS place
    FROM buses
    JOIN gone ON gone.place > buses.last_published
    GROUP BY buses.name
) AS lost, clock
WHERE b.name = lost.name
RETURNING b.name, lost.number
"""


async def drop_old(
    connection: AsyncConnection, kept: timedelta, at: datetime | None
) -> dict[str, int]:
    """Drop events that are older than the retention; return how many each bus has lost."""
    rows = await connection.exec_driver_sql(_DROP_OLD, {"at": at, "kept": kept})
    return {row.name: row.number for row in rows}


_FORGET = """
DELETE FROM tenantcron.event_bus AS b
WHERE b.seen_at < coalesce(%(at)s::timestamptz, statement_timestamp()) - %(kept)s::interval
RETURNING b.name
"""


async def forget(connection: AsyncConnection, kept: timedelta, at: datetime | None) -> list[str]:
    """Remove buses for which no replica was configured lately, so that no events are written."""
    rows = await connection.exec_driver_sql(_FORGET, {"at": at, "kept": kept})
    return [row.name for row in rows]


# The first event of each bus, by key, so that the cost does not depend on the backlog.
_HEALTH = """
SELECT b.name, b.seen_at, first.placed_at, b.last_error, b.dropped, b.dropped_at
FROM tenantcron.event_bus AS b
LEFT JOIN LATERAL (
    SELECT e.placed_at
    FROM tenantcron.bus_event AS e
    WHERE e.place > b.last_published
    ORDER BY e.place
    LIMIT 1
) AS first ON true
ORDER BY b.name
"""


async def list_health(connection: AsyncConnection) -> list[BusHealth]:
    """Return the health of all buses, by name."""
    rows = await connection.exec_driver_sql(_HEALTH)
    return [BusHealth(*row) for row in map(tuple, rows)]
