"""Publishers of a test: replicas that publish to one bus, and a bus in memory for failures."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from support.scheduling import Scheduling

from tenantcron.events.bus import BusError, BusMessage, EventBus
from tenantcron.events.opening import NamedBus, open_bus
from tenantcron.events.publisher import BusPublisher
from tenantcron.store.rows import outbox


@dataclass(slots=True)
class ProbeBus:
    """A bus that stores messages in a list, and can fail on purpose."""

    destination: str = "probe"
    messages: list[BusMessage] = field(default_factory=list)
    # Returns the error for a message, or None to store it.
    judge: Callable[[BusMessage], Exception | None] = lambda _: None
    is_up: bool = True
    # Set when a message is stored; then the publisher waits for `go`.
    holds: bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def connect(self) -> None:
        if not self.is_up:
            raise BusError("the bus is down")

    async def publish(self, message: BusMessage) -> None:
        error = self.judge(message)
        if error is not None:
            raise error
        self.messages.append(message)
        self.arrived.set()
        if self.holds:
            await self.go.wait()

    async def close(self) -> None:
        """Nothing is open."""

    def types(self, tenant: str = "acme") -> list[str]:
        return [message.type for message in self.messages if message.tenant == tenant]


@dataclass(slots=True)
class Buses:
    """Replicas that share a database, and publish to one bus each."""

    scheduling: Scheduling
    publishers: list[BusPublisher] = field(default_factory=list)

    def named(self, url: str) -> NamedBus:
        bus = open_bus(replace(self.scheduling.settings, event_bus=url))
        assert bus is not None
        return bus

    async def publisher(
        self, bus: EventBus | str, name: str = "one", declared: bool = True
    ) -> BusPublisher:
        """Return the publisher of one replica, for a URL or a bus."""
        named = self.named(bus) if isinstance(bus, str) else NamedBus("probe/probe", bus)
        replica = self.scheduling.replica(name)
        publisher = BusPublisher(replica.event_delivery, named)
        self.publishers.append(publisher)
        if declared:
            await publisher.step()
        return publisher

    async def place(self) -> None:
        """Sequence events, as every replica does."""
        async with self.scheduling.database.transaction(by_key=True) as connection:
            await outbox.place(connection, 5000, self.scheduling.clock())

    async def happen(self, *subjects: str, tenant: str = "acme") -> None:
        """Insert events and place them."""
        for subject in subjects:
            await self.scheduling.execute(
                "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
                " VALUES (:tenant, 'dev.tenantcron.tenant.changed', :subject, now(), '{}')",
                tenant=tenant,
                subject=subject,
            )
        await self.place()

    async def close(self) -> None:
        for publisher in self.publishers:
            await publisher.close()
