"""Publishes events to a bus: one replica at a time, in order per tenant, at least once.

docs/decisions/0041 has the protocol and its reasons.

- Each replica with the setting polls once a second, and leases the bus if it has events.
- It publishes the leased events: those of a tenant one after the other, those of different tenants
  concurrently. It waits for each acknowledgement of the bus.
- It records the position up to which all events are acknowledged, and releases the lease. No
  transaction is open while it publishes.
- After a failure it closes the connection, and the bus waits for a random time with exponential
  backoff, for all replicas.

If a replica dies, another one leases the bus when the lease expires, and publishes unrecorded
events again with the same ids. Nothing else waits for the bus: its loop is separate, and uses a
connection to the database only to lease and to record.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.core.wake_signal import WakeSignal
from tenantcron.events.bus import BusError, BusMessage, EventRefusedError
from tenantcron.events.cloud_events import PREFIX, as_bytes, as_cloud_event
from tenantcron.events.delivery import EventDelivery, wait_after
from tenantcron.events.opening import NamedBus
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import audit_records, event_buses
from tenantcron.store.rows.event_buses import BusLease, BusProgress, PlacedEvent

log = structlog.get_logger(__name__)

EVENTS_A_LEASE: Final = 1000
IN_FLIGHT: Final = 128
LEASE: Final = timedelta(seconds=40)
# The last message of a lease is sent within this time, so that it ends within the lease.
LONGEST_VISIT: Final = timedelta(seconds=20)
# The time limit for a connect and for an acknowledgement.
LONGEST_CALL: Final = timedelta(seconds=10)
LONGEST_WAIT: Final = timedelta(seconds=30)

_POLL_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Visit:
    """What became of the events of one lease."""

    # Positions that the bus has acknowledged, or refused for good.
    done: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    error: str | None = None

    def progress(self, events: Iterable[PlacedEvent]) -> tuple[int, int]:
        """Return the last position before which all are done, and the refused ones up to it."""
        published = 0
        for placed in events:
            if placed.event.place not in self.done:
                break
            published = placed.event.place
        return published, sum(place <= published for place in self.refused)


class BusPublisher:
    """Publishes to one bus. All its state is in the database, except for the connection."""

    def __init__(self, delivery: EventDelivery, named: NamedBus) -> None:
        self._delivery = delivery
        self._name, self._bus = named.name, named.bus
        self._stopping = False
        self.wake_signal = WakeSignal()

    def stop(self) -> None:
        """Lease the bus no more, and send no more messages."""
        self._stopping = True
        self.wake_signal.set()

    async def close(self) -> None:
        """Disconnect."""
        try:
            async with asyncio.timeout(LONGEST_CALL.total_seconds()):
                await self._bus.close()
        except Exception as error:  # noqa: BLE001 -- an adapter of a third party; it is not used any more
            log.warning("event_bus_failed", bus=self._name, error=_words(error), failures=0)

    async def step(self) -> float:
        """Publish the events that are due; return the seconds until there may be more."""
        delivery = self._delivery
        glance = await event_buses.glance(delivery.database, self._name, delivery.clock())
        if glance.is_unseen:
            await self._declare()
        if not glance.has_due_events or self._stopping:
            return _POLL_SECONDS
        lease = await self._take()
        if lease is None:
            return _POLL_SECONDS
        progress = await self._publish(lease)
        await self._record(lease, progress)
        is_behind = progress.error is None and len(lease.events) == EVENTS_A_LEASE
        return 0 if is_behind else _POLL_SECONDS

    async def publish_once(self) -> None:
        """Publish all events that are due, until the bus accepts no more."""
        published, before = self._delivery.counts.published, -1
        while published.total() > before:
            before = published.total()
            while await retry_conflicts(self.step) == 0:
                pass

    async def _declare(self) -> None:
        """Record that this bus receives events from now on."""
        async with self._delivery.database.transaction() as connection:
            await audit_records.act(connection, Attribution(self._delivery.actor))
            is_new = await event_buses.declare(connection, self._name, self._delivery.clock())
        if is_new:
            log.info("event_bus_declared", bus=self._name)

    async def _take(self) -> BusLease | None:
        async with self._delivery.database.transaction(by_key=True) as connection:
            return await event_buses.take(
                connection,
                self._name,
                events=EVENTS_A_LEASE,
                lease=LEASE,
                at=self._delivery.clock(),
            )

    async def _publish(self, lease: BusLease) -> BusProgress:
        """Publish the events of a lease, as long as the bus accepts them."""
        visit, until = _Visit(), asyncio.get_running_loop().time() + LONGEST_VISIT.total_seconds()
        in_flight = asyncio.Semaphore(IN_FLIGHT)

        async def publish_in_order(events: Sequence[PlacedEvent]) -> None:
            for placed in events:
                async with in_flight:
                    if self._is_over(visit, until) or not await self._send(visit, placed):
                        return

        if await self._connected(visit):
            async with asyncio.TaskGroup() as tasks:
                for events in _by_tenant(lease.events):
                    tasks.create_task(publish_in_order(events))
        return await self._progress(lease, visit)

    def _is_over(self, visit: _Visit, until: float) -> bool:
        """Whether no more messages are sent; before a stop the first ones are."""
        if visit.error is not None or asyncio.get_running_loop().time() > until:
            return True
        return self._stopping and bool(visit.done)

    async def _connected(self, visit: _Visit) -> bool:
        try:
            async with asyncio.timeout(LONGEST_CALL.total_seconds()):
                await self._bus.connect()
        except Exception as error:  # noqa: BLE001 -- an adapter of a third party must not end the replica
            visit.error = _words(error)
            return False
        return True

    async def _send(self, visit: _Visit, placed: PlacedEvent) -> bool:
        """Send one event; return whether those after it may be sent."""
        event = placed.event
        try:
            async with asyncio.timeout(LONGEST_CALL.total_seconds()):
                await self._bus.publish(_message(placed))
        except EventRefusedError as error:
            visit.refused.add(event.place)
            fields = {"tenant": placed.tenant_id, "event_id": str(event.id), "error": str(error)}
            log.error("event_bus_event_refused", bus=self._name, **fields)
        except Exception as error:  # noqa: BLE001 -- as above
            visit.error = visit.error or _words(error)
            return False
        visit.done.add(event.place)
        return True

    async def _progress(self, lease: BusLease, visit: _Visit) -> BusProgress:
        published, refused = visit.progress(lease.events)
        counts = self._delivery.counts
        counts.published[self._name] += len(visit.done) - len(visit.refused)
        if visit.error is None:
            return BusProgress(published=published, refused=refused)
        # A published event shows that the bus works, so its failures count from one again.
        failures = 1 if published else lease.failures + 1
        counts.bus_failures[self._name] += 1
        log.warning("event_bus_failed", bus=self._name, error=visit.error, failures=failures)
        await self.close()
        return BusProgress(
            published=published,
            refused=refused,
            wait=wait_after(failures, self._delivery.random, LONGEST_WAIT),
            failures=failures,
            error=visit.error,
        )

    async def _record(self, lease: BusLease, progress: BusProgress) -> None:
        """Record the progress. If that fails, the lease expires and events are sent again."""
        try:
            async with self._delivery.database.transaction(by_key=True) as connection:
                held = await event_buses.release(
                    connection, lease, progress, self._delivery.clock()
                )
        except (DatabaseError, DBAPIError) as error:
            log.error("event_bus_not_recorded", bus=self._name, error=first_line(error))
            return
        if not held:
            log.warning("event_bus_lease_lost", bus=self._name)


def _by_tenant(events: Iterable[PlacedEvent]) -> Iterable[Sequence[PlacedEvent]]:
    tenants: defaultdict[str, list[PlacedEvent]] = defaultdict(list)
    for placed in events:
        tenants[placed.tenant_id].append(placed)
    return tenants.values()


def _message(placed: PlacedEvent) -> BusMessage:
    tenant, event = placed.tenant_id, placed.event
    body = as_bytes(as_cloud_event(tenant, event))
    return BusMessage(event.id, tenant, event.type.removeprefix(PREFIX), body)


def _words(error: Exception) -> str:
    """Return an error in words; those of libraries may have none."""
    if isinstance(error, BusError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no answer within {LONGEST_CALL.total_seconds():g} s"
    return f"{type(error).__name__}: {error}"
