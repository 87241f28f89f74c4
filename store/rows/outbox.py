"""Events for webhooks: the `outbox`, and the lanes from which they are delivered.

The protocol, with the reasons, is in docs/decisions/0019:

- triggers write to `outbox`, in the transaction of the event;
- `place` decides the order: one transaction at a time moves committed events into lanes, one for
  each webhook and tenant;
- `take` leases due lanes to a replica, with their next events;
- `release` records the progress of a lane, if the replica still holds the lease;
- `drop_old` drops events that were not delivered in time.
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
    """An event, with its position among the events of its tenant."""

    place: int
    id: UUID
    type: str
    subject: str
    happened_at: datetime
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Lane:
    """The events of one webhook and tenant, leased to a replica."""

    webhook: str
    tenant_id: TenantId
    token: UUID
    # The number of consecutive failures so far.
    failures: int
    taken_at: datetime
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """The progress of a lane, the delay until its next delivery, and its error."""

    # The last delivered position; 0: none.
    delivered: int
    wait: timedelta
    failures: int
    error: str | None


async def place(connection: AsyncConnection, batch: int, at: datetime | None) -> int:
    """Move events into their lanes; return how many, 0 if another replica is doing it.

    The lock is a separate statement, so that the next one sees everything committed before it.
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
    """Lease due lanes, at most `slots` of each webhook, each with its next events."""
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


async def release(
    connection: AsyncConnection, lane: Lane, progress: LaneProgress, at: datetime | None
) -> bool:
    """Record the progress of a lane and release it; False if the lease was lost."""
    parameters = {
        "at": at,
        "webhook": lane.webhook,
        "tenant": lane.tenant_id,
        "token": lane.token,
        "delivered": progress.delivered,
        "wait": progress.wait,
        "failures": progress.failures,
        "error": progress.error,
    }
    found = await connection.exec_driver_sql(statement("release_lane"), parameters)
    return bool(found.scalar_one())


# Lanes are locked first, in the same order as in `release`; locked ones are skipped this time.
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
    """Drop events that are older than the retention; return how many, by webhook."""
    rows = await connection.exec_driver_sql(_DROP_OLD, {"at": at, "kept": kept})
    return {row.name: row.number for row in rows}


@dataclass(frozen=True, slots=True)
class WebhookBacklog:
    """The undelivered events of one webhook: the number of lanes, and the oldest event."""

    webhook: str
    lanes: int
    oldest: datetime
    error: str | None


# The first event of each lane, by key, so that the cost does not depend on the length of a lane.
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


async def backlogs(connection: AsyncConnection) -> dict[str, WebhookBacklog]:
    """Return the undelivered events by webhook."""
    rows = await connection.exec_driver_sql(_BACKLOGS)
    return {row[0]: WebhookBacklog(*row) for row in map(tuple, rows)}
