"""Events on their way to webhooks: `outbox`, and the lanes that they are delivered from.

The protocol, with the reasons, is in docs/decisions/0019:

- triggers write to `outbox`, in the transaction of what has happened;
- `place` fixes the order: one transaction at a time takes what is committed and puts it into lanes,
  one for each webhook and tenant;
- `take` leases lanes that are due to a replica, with their next events;
- `settle` says how far the replica came, and counts only from who still holds the lease;
- `drop_old` gives up what nobody took for too long.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.connection.locks import Lock, try_lock
from tenantcron.store.steps.statements import statement


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, in its place among the events of its tenant."""

    place: int
    id: UUID
    type: str
    subject: str
    happened_at: datetime
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Lane:
    """One webhook's events of one tenant, leased to who took it."""

    webhook: str
    tenant_id: TenantId
    token: UUID
    # How often in a row it has failed so far.
    failures: int
    taken_at: datetime
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Settlement:
    """How far a lane came, when it goes on, and what went wrong."""

    # The last place that was delivered; 0: none was.
    delivered: int
    wait: timedelta
    failures: int
    error: str | None


async def place(connection: AsyncConnection, batch: int, at: datetime | None) -> int:
    """Put events into their lanes; return how many, 0 if somebody else is at it.

    The lock is a statement of its own: the next one sees what was committed before it was granted.
    """
    if not await try_lock(connection, Lock.OUTBOX):
        return 0
    parameters = {"at": at, "batch": batch}
    found = await connection.exec_driver_sql(statement("place_events"), parameters)
    return int(found.scalar_one())


async def take(
    connection: AsyncConnection,
    slots: Mapping[str, int],
    *,
    events: int,
    lease: timedelta,
    at: datetime | None,
) -> list[Lane]:
    """Lease lanes that are due, so many of each webhook, each with its next events."""
    parameters = {
        "at": at,
        "webhooks": list(slots),
        "slots": list(slots.values()),
        "events": events,
        "lease": lease,
    }
    rows = await connection.exec_driver_sql(statement("take_lanes"), parameters)
    lanes = groupby(map(tuple, rows), key=lambda columns: columns[:5])
    return [_lane(lane, members) for lane, members in lanes]


def _lane(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Lane:
    webhook, tenant, token, failures, taken_at = columns
    events = tuple(Event(*row[5:]) for row in rows if row[5] is not None)
    return Lane(webhook, tenant, token, failures, taken_at, events)


async def settle(
    connection: AsyncConnection, lane: Lane, settlement: Settlement, at: datetime | None
) -> bool:
    """Write down how far a lane came; False if the lease was lost, and nothing was written."""
    parameters = {
        "at": at,
        "webhook": lane.webhook,
        "tenant": lane.tenant_id,
        "token": lane.token,
        "delivered": settlement.delivered,
        "wait": settlement.wait,
        "failures": settlement.failures,
        "error": settlement.error,
    }
    found = await connection.exec_driver_sql(statement("settle_lane"), parameters)
    return bool(found.scalar_one())


# Lanes first, as whoever settles one does; those that are being settled come next time.
_DROP_OLD = """
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
lanes AS MATERIALIZED (
    SELECT l.webhook_name, l.tenant_id
    FROM tenantcron.webhook_lane AS l
    WHERE l.last_placed > l.last_delivered
    ORDER BY l.webhook_name, l.tenant_id
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM tenantcron.webhook_event AS e
    USING lanes AS l, clock
    WHERE
        e.webhook_name = l.webhook_name AND e.tenant_id = l.tenant_id
        AND e.placed_at < clock.now - %(kept)s::interval
    RETURNING e.webhook_name, e.tenant_id, e.place
),
passed AS (
    UPDATE tenantcron.webhook_lane AS l
    SET last_delivered = greatest(l.last_delivered, g.place)
    FROM (
        SELECT webhook_name, tenant_id, max(place) AS place FROM gone GROUP BY 1, 2
    ) AS g
    WHERE l.webhook_name = g.webhook_name AND l.tenant_id = g.tenant_id
)
UPDATE tenantcron.webhook AS w
SET dropped = w.dropped + g.number, dropped_at = clock.now
FROM (SELECT webhook_name, count(*) AS number FROM gone GROUP BY 1) AS g, clock
WHERE w.name = g.webhook_name
RETURNING w.name, g.number
"""


async def drop_old(
    connection: AsyncConnection, kept: timedelta, at: datetime | None
) -> dict[str, int]:
    """Give up events that waited longer than they are kept; return how many, by webhook."""
    rows = await connection.exec_driver_sql(_DROP_OLD, {"at": at, "kept": kept})
    return {row.name: row.number for row in rows}


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for one webhook: how many tenants' lanes, and since when the oldest."""

    webhook: str
    lanes: int
    oldest: datetime
    error: str | None


# The first event of each lane that has any, by its key: the length of a lane does not matter.
_BACKLOGS = """
SELECT
    l.webhook_name, count(*)::int, min(first.placed_at),
    (array_agg(l.last_error ORDER BY l.failures DESC))[1]
FROM tenantcron.webhook_lane AS l
CROSS JOIN LATERAL (
    SELECT e.placed_at
    FROM tenantcron.webhook_event AS e
    WHERE e.webhook_name = l.webhook_name AND e.tenant_id = l.tenant_id
    ORDER BY e.place
    LIMIT 1
) AS first
WHERE l.last_placed > l.last_delivered
GROUP BY l.webhook_name
"""


async def backlogs(connection: AsyncConnection) -> dict[str, Backlog]:
    """Return what waits, by webhook."""
    rows = await connection.exec_driver_sql(_BACKLOGS)
    return {row[0]: Backlog(*row) for row in map(tuple, rows)}
