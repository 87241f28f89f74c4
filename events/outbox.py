"""The outbox: sequences events, leases lanes and calls webhook receivers.

docs/decisions/0019 has the protocol and its reasons.

- Every replica appends committed events to lanes, one replica at a time in the entire database.
- Every replica leases due lanes, a few per webhook, and delivers each lane in its own task. It
  sends the events in order until the receiver rejects one, all are delivered, or the lane has to be
  released.
- A lane that failed waits for a random time with exponential backoff. A lane that succeeded goes to
  the end of the queue.

If a replica dies, another replica takes over its lanes when their leases expire, and sends the
unrecorded events again. A receiver that does not answer occupies a few tasks and nothing else: each
replica polls the database once a second.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.core.wake_signal import WakeSignal
from tenantcron.events.delivery import EventDelivery, wait_after
from tenantcron.events.webhooks.requests import (
    WebhookDeliveryError,
    WebhookGoneError,
    WebhookSender,
)
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import audit_records, outbox, webhooks
from tenantcron.store.rows.outbox import Event, Lane, LaneProgress
from tenantcron.store.rows.webhooks import Webhook
from tenantcron.store.steps import glances

log = structlog.get_logger(__name__)

# Lanes of one webhook that a replica delivers at a time.
LANES_A_WEBHOOK: Final = 4
EVENTS_A_LANE: Final = 100
EVENTS_A_BATCH: Final = 5000
LEASE: Final = timedelta(seconds=40)
# The last request of a lane starts within this time, so that it ends within the lease.
LONGEST_VISIT: Final = timedelta(seconds=20)
LONGEST_WAIT: Final = timedelta(minutes=5)

_POLL_SECONDS: Final = 1.0
# The poll interval without receivers; a new one is detected after this time at the latest.
_IDLE_SECONDS: Final = 5.0
_RECORDED_AT_ONCE: Final = 2
_AT_ONCE: Final = timedelta(0)


class Outbox:
    """Sequences and delivers events. All its state is in the database."""

    def __init__(self, delivery: EventDelivery, courier: WebhookSender) -> None:
        self._delivery = delivery
        self._courier = courier
        self._under_way: Counter[str] = Counter()
        self._stopping = False
        # These are the scheduler's connections, which it needs for more urgent writes.
        self._recording = asyncio.Semaphore(_RECORDED_AT_ONCE)
        self.wake_signal = WakeSignal()

    def stop(self) -> None:
        """Lease no more lanes, and start no more requests."""
        self._stopping = True
        self.wake_signal.set()

    async def step(self, tasks: asyncio.TaskGroup) -> float:
        """Sequence events and start to deliver due lanes, in tasks of the caller's group."""
        glance = await glances.outbox(self._delivery.database, self._delivery.clock())
        placed = await self._place() if glance.has_events else 0
        if placed or glance.has_due_lanes:
            await self._take(tasks)
        if placed == EVENTS_A_BATCH:
            return 0
        return _POLL_SECONDS if glance.has_receivers else _IDLE_SECONDS

    async def deliver_once(self) -> None:
        """Deliver all due events, until no receiver accepts any more."""
        delivered, before = self._delivery.counts.delivered, -1
        while delivered.total() > before:
            before = delivered.total()
            async with asyncio.TaskGroup() as tasks:
                while await retry_conflicts(lambda: self.step(tasks)) == 0:
                    pass

    async def _place(self) -> int:
        async with self._delivery.database.transaction(by_key=True) as connection:
            return await outbox.place(connection, EVENTS_A_BATCH, self._delivery.clock())

    async def _take(self, tasks: asyncio.TaskGroup) -> None:
        """Lease lanes for the free slots."""
        async with self._delivery.database.transaction(by_key=True) as connection:
            enabled = {webhook.name: webhook for webhook in await webhooks.list_enabled(connection)}
            free = {name: LANES_A_WEBHOOK - self._under_way[name] for name in enabled}
            slots = {name: number for name, number in free.items() if number > 0}
            if self._stopping or not slots:
                return
            lanes = await outbox.take(
                connection, slots, events=EVENTS_A_LANE, lease=LEASE, at=self._delivery.clock()
            )
        for lane in lanes:
            self._under_way[lane.webhook] += 1
            tasks.create_task(self._deliver(enabled[lane.webhook], lane))

    async def _deliver(self, webhook: Webhook, lane: Lane) -> None:
        try:
            settlement = await self._send(webhook, lane)
            await self._record(lane, settlement)
        finally:
            self._under_way[webhook.name] -= 1
            self.wake_signal.set()

    async def _send(self, webhook: Webhook, lane: Lane) -> LaneProgress:
        """Send the events of a lane in order, as long as the receiver accepts them."""
        now = asyncio.get_running_loop().time
        began, delivered = now(), 0
        for part in _requests(webhook, lane.events):
            spent = timedelta(seconds=now() - began)
            if spent > LONGEST_VISIT or (self._stopping and delivered):
                break
            try:
                await self._courier.send(webhook, lane.tenant_id, part, lane.taken_at + spent)
            except WebhookDeliveryError as error:
                return await self._failed(webhook, lane, delivered, error)
            delivered = part[-1].place
            self._delivery.counts.delivered[webhook.name] += len(part)
        return LaneProgress(delivered, _AT_ONCE, 0, None)

    async def _failed(
        self, webhook: Webhook, lane: Lane, delivered: int, error: WebhookDeliveryError
    ) -> LaneProgress:
        """Log a failed request, and disable a webhook whose receiver is gone."""
        # An accepted event shows that the receiver works, so its failures count from one again.
        failures = 1 if delivered else lane.failures + 1
        self._delivery.counts.webhook_failures[webhook.name] += 1
        fields = {"webhook": webhook.name, "tenant": lane.tenant_id, "error": str(error)}
        log.warning("webhook_failed", **fields, failures=failures)
        if isinstance(error, WebhookGoneError):
            await self._disable(webhook, error)
        wait = wait_after(failures, self._delivery.random, LONGEST_WAIT)
        return LaneProgress(delivered, wait, failures, str(error))

    async def _disable(self, webhook: Webhook, error: WebhookGoneError) -> None:
        """Disable a webhook, and record that as an action of this scheduler."""
        try:
            async with self._delivery.database.transaction() as connection:
                await audit_records.act(connection, Attribution(self._delivery.actor))
                at = self._delivery.clock()
                was_on = await webhooks.disable(connection, webhook.name, str(error), at)
        except (DatabaseError, DBAPIError) as away:
            # The receiver will answer the next request in the same way.
            log.error("webhook_not_settled", webhook=webhook.name, error=first_line(away))
            return
        if was_on is not None:
            log.error("webhook_gone", webhook=webhook.name)

    async def _record(self, lane: Lane, settlement: LaneProgress) -> None:
        """Record the delivered events. If that fails, the lease expires and they are sent again."""
        try:
            async with (
                self._recording,
                self._delivery.database.transaction(by_key=True) as connection,
            ):
                held = await outbox.release(connection, lane, settlement, self._delivery.clock())
        except (DatabaseError, DBAPIError) as error:
            log.error("webhook_not_settled", webhook=lane.webhook, error=first_line(error))
            return
        if not held:
            log.warning("webhook_lease_lost", webhook=lane.webhook, tenant=lane.tenant_id)


def _requests(webhook: Webhook, events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield the events of each request."""
    if webhook.in_batches:
        if events:
            yield events
        return
    for event in events:
        yield (event,)
