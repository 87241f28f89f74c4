"""The outbox at work: events get their place, lanes are taken, receivers are called.

docs/decisions/0019 has the protocol and its reasons. Who does what:

- every replica puts committed events into lanes; one at a time in the whole database does so;
- every replica takes lanes that are due, a few of each webhook, and delivers each in a task of its
  own: one event after the other, until one is not taken, or all are, or it is time to give it back;
- a lane that failed waits a random time, ever longer; one that did not goes to the end of the line.

A replica that dies has leased its lanes: another takes them when the lease is over, and sends again
what was not settled. A receiver that is dead has a few tasks waiting here, and nothing else: the
database is asked once a second, for what is due.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.scheduler.events.webhooks import Courier, GoneError, NotTakenError
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.sleeping_loops import Bell, insist
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import audit_records, outbox, webhooks
from tenantcron.store.rows.outbox import Event, Lane, Settlement
from tenantcron.store.rows.webhooks import Webhook
from tenantcron.store.steps import glances

log = structlog.get_logger(__name__)

# Lanes of one webhook that a replica delivers at a time.
LANES_A_WEBHOOK: Final = 4
EVENTS_A_LANE: Final = 100
EVENTS_A_BATCH: Final = 5000
LEASE: Final = timedelta(seconds=40)
# Nothing is sent later than this after a lane was taken; the last call must end within the lease.
LONGEST_VISIT: Final = timedelta(seconds=20)
LONGEST_WAIT: Final = timedelta(minutes=5)

_LOOK_SECONDS: Final = 1.0
# Nobody listens; a webhook that is added is noticed after that long at the latest.
_IDLE_SECONDS: Final = 5.0
_FIRST_WAIT: Final = 1.0
_SETTLED_AT_ONCE: Final = 2
_AT_ONCE: Final = timedelta(0)
# Doubling so often passes the longest wait.
_MOST_DOUBLINGS: Final = 20


class Outbox:
    """Places and delivers events; all that it knows lies in the database."""

    def __init__(self, replica: Replica, courier: Courier) -> None:
        self._replica = replica
        self._courier = courier
        self._under_way: Counter[str] = Counter()
        self._stopping = False
        # The connections are the scheduler's, which has more urgent things to write.
        self._settling = asyncio.Semaphore(_SETTLED_AT_ONCE)
        self.bell = Bell()

    def stop(self) -> None:
        """Take no more lanes, and send no more than what is being sent."""
        self._stopping = True
        self.bell.ring()

    async def step(self, tasks: asyncio.TaskGroup) -> float:
        """Place events and start to deliver what is due; the tasks belong to the caller."""
        glance = await glances.outbox(self._replica.database, self._replica.clock())
        placed = await self._place() if glance.has_events else 0
        if placed or glance.has_due_lanes:
            await self._take(tasks)
        if placed == EVENTS_A_BATCH:
            return 0
        return _LOOK_SECONDS if glance.has_webhooks else _IDLE_SECONDS

    async def deliver_once(self) -> None:
        """Deliver all that is due, until nobody takes anything more."""
        delivered, before = self._replica.counts.events_delivered, -1
        while delivered.total() > before:
            before = delivered.total()
            async with asyncio.TaskGroup() as tasks:
                while await insist(lambda: self.step(tasks)) == 0:
                    pass

    async def _place(self) -> int:
        async with self._replica.database.transaction(by_key=True) as connection:
            return await outbox.place(connection, EVENTS_A_BATCH, self._replica.clock())

    async def _take(self, tasks: asyncio.TaskGroup) -> None:
        """Take lanes for the slots that are free."""
        async with self._replica.database.transaction(by_key=True) as connection:
            enabled = {one.name: one for one in await webhooks.list_enabled(connection)}
            free = {name: LANES_A_WEBHOOK - self._under_way[name] for name in enabled}
            slots = {name: number for name, number in free.items() if number > 0}
            if self._stopping or not slots:
                return
            lanes = await outbox.take(
                connection, slots, events=EVENTS_A_LANE, lease=LEASE, at=self._replica.clock()
            )
        for lane in lanes:
            self._under_way[lane.webhook] += 1
            tasks.create_task(self._deliver(enabled[lane.webhook], lane))

    async def _deliver(self, webhook: Webhook, lane: Lane) -> None:
        try:
            settlement = await self._visit(webhook, lane)
            await self._settle(lane, settlement)
        finally:
            self._under_way[webhook.name] -= 1
            self.bell.ring()

    async def _visit(self, webhook: Webhook, lane: Lane) -> Settlement:
        """Send the events of a lane in order, as far as the receiver takes them."""
        now = asyncio.get_running_loop().time
        began, delivered = now(), 0
        for part in _requests(webhook, lane.events):
            spent = timedelta(seconds=now() - began)
            if spent > LONGEST_VISIT or (self._stopping and delivered):
                break
            try:
                await self._courier.send(webhook, lane.tenant_id, part, lane.taken_at + spent)
            except NotTakenError as error:
                return await self._failed(webhook, lane, delivered, error)
            delivered = part[-1].place
            self._replica.counts.events_delivered[webhook.name] += len(part)
        return Settlement(delivered, _AT_ONCE, 0, None)

    async def _failed(
        self, webhook: Webhook, lane: Lane, delivered: int, error: NotTakenError
    ) -> Settlement:
        """Say what went wrong; a receiver that is gone for good is asked no more."""
        # What was taken before it shows that the receiver is there: the row begins anew.
        failures = 1 if delivered else lane.failures + 1
        self._replica.counts.webhook_failures[webhook.name] += 1
        said = {"webhook": webhook.name, "tenant": lane.tenant_id, "error": str(error)}
        log.warning("webhook_failed", **said, failures=failures)
        if isinstance(error, GoneError):
            await self._switch_off(webhook, error)
        wait = wait_after(failures, self._replica.random)
        return Settlement(delivered, wait, failures, str(error))

    async def _switch_off(self, webhook: Webhook, error: GoneError) -> None:
        """Put it on record, too, in the name of this scheduler."""
        try:
            async with self._replica.database.transaction() as connection:
                await audit_records.act(connection, Attribution(self._replica.actor))
                at = self._replica.clock()
                was_on = await webhooks.disable(connection, webhook.name, str(error), at)
        except (DatabaseError, DBAPIError) as away:
            # The next call is answered in the same way.
            log.error("webhook_not_settled", webhook=webhook.name, error=first_line(away))
            return
        if was_on is not None:
            log.error("webhook_gone", webhook=webhook.name)

    async def _settle(self, lane: Lane, settlement: Settlement) -> None:
        """Write down how far it came; if that fails, the lease ends and all of it is sent again."""
        try:
            async with (
                self._settling,
                self._replica.database.transaction(by_key=True) as connection,
            ):
                held = await outbox.settle(connection, lane, settlement, self._replica.clock())
        except (DatabaseError, DBAPIError) as error:
            log.error("webhook_not_settled", webhook=lane.webhook, error=first_line(error))
            return
        if not held:
            log.warning("webhook_lease_lost", webhook=lane.webhook, tenant=lane.tenant_id)


def wait_after(failures: int, random: Random) -> timedelta:
    """Return how long a lane is left alone: any time up to a bound that doubles."""
    doubled = _FIRST_WAIT * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
    return timedelta(seconds=random.uniform(0, min(doubled, LONGEST_WAIT.total_seconds())))


def _requests(webhook: Webhook, events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield what goes into one request each."""
    if webhook.in_batches:
        if events:
            yield events
        return
    for event in events:
        yield (event,)
