"""Events reach a bus in order per tenant, at least once, and without delaying the scheduler."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs
from support.buses import Buses, ProbeBus
from support.replicas import Works, at_work, due, until_state
from support.scheduling import Scheduling
from support.webhooks import hooked, subjects

from tenantcron.events.bus import BusError, BusMessage, EventRefusedError
from tenantcron.events.publisher import IN_FLIGHT, LEASE, LONGEST_WAIT
from tenantcron.scheduler.replica.housekeeping import clean_up
from tenantcron.store.rows import event_buses


@pytest.fixture
def buses(scheduling: Scheduling) -> Buses:
    return Buses(scheduling)


def names(bus: ProbeBus, tenant: str = "acme") -> list[str]:
    return [
        message.body.decode().split('"subject":"')[1].split('"')[0]
        for message in bus.messages
        if message.tenant == tenant
    ]


async def test_events_of_a_tenant_are_published_in_order(buses: Buses) -> None:
    bus = ProbeBus()
    publisher = await buses.publisher(bus)
    expected = [f"e{number}" for number in range(30)]
    await buses.happen(*expected)
    await buses.happen("other", tenant="beta")
    await publisher.publish_once()
    assert names(bus) == expected
    assert names(bus, "beta") == ["other"]
    assert await buses.scheduling.rows("bus_event", "place") == []


async def test_a_bus_gets_all_events_from_its_first_start_on(buses: Buses) -> None:
    bus, scheduling = ProbeBus(), buses.scheduling
    await scheduling.waiting(1, schedule_name="before")
    (claimed,) = await scheduling.claim_all()
    await scheduling.finish(claimed)
    publisher = await buses.publisher(bus)
    await scheduling.waiting(1, schedule_name="nightly")
    (claimed,) = await scheduling.claim_all()
    await scheduling.finish(claimed)
    await scheduling.execute("UPDATE tenantcron.tenant SET status_reason = 'x'")
    await buses.place()
    await publisher.publish_once()
    assert bus.types() == ["execution.succeeded", "tenant.changed"]
    assert f"executions/{claimed.id}" == names(bus)[0]


async def test_a_bus_and_a_webhook_get_the_same_event(buses: Buses) -> None:
    bus = ProbeBus()
    publisher = await buses.publisher(bus)
    async with hooked(buses.scheduling) as hooks:
        await hooks.add()
        await hooks.happen("one")
        (received,) = await hooks.deliver()
    await publisher.publish_once()
    (message,) = bus.messages
    assert str(message.id) == received["id"]
    assert message.type == "tenant.changed"


async def test_without_a_bus_nothing_is_logged_for_one(buses: Buses) -> None:
    async with hooked(buses.scheduling) as hooks:
        await hooks.add()
        await hooks.happen("one")
        assert subjects(await hooks.deliver()) == ["one"]
    assert await buses.scheduling.rows("bus_event", "place") == []


async def test_one_replica_publishes_at_a_time_and_another_takes_over(buses: Buses) -> None:
    held, bus = ProbeBus(holds=True), ProbeBus()
    first, second = await buses.publisher(held), await buses.publisher(bus, "two")
    await buses.happen("one", "two")
    step = asyncio.create_task(first.step())
    await held.arrived.wait()
    # As if its process was killed after the bus had stored the event and before it was recorded.
    step.cancel()
    with suppress(asyncio.CancelledError):
        await step
    await second.publish_once()
    assert bus.messages == []
    buses.scheduling.clock.advance(seconds=LEASE.total_seconds() + 1)
    await second.publish_once()
    assert names(bus) == ["one", "two"]
    # The repeated event has the id of the first one.
    assert bus.messages[0].id == held.messages[0].id


async def test_a_replica_that_lost_its_lease_records_nothing(buses: Buses) -> None:
    held, bus = ProbeBus(holds=True), ProbeBus(is_up=False)
    first, second = await buses.publisher(held), await buses.publisher(bus, "two")
    await buses.happen("one")
    step = asyncio.create_task(first.step())
    await held.arrived.wait()
    buses.scheduling.clock.advance(seconds=LEASE.total_seconds() + 1)
    await second.step()
    held.go.set()
    with capture_logs() as logs:
        await step
    assert [entry["event"] for entry in logs] == ["event_bus_lease_lost"]
    assert len(await buses.scheduling.rows("bus_event", "place")) == 1


async def test_after_a_failure_a_tenants_later_events_wait(buses: Buses) -> None:
    failing = True

    def judge(message: BusMessage) -> Exception | None:
        is_bad = failing and message.tenant == "acme" and b"two" in message.body
        return BusError("no") if is_bad else None

    bus = ProbeBus(judge=judge)
    publisher = await buses.publisher(bus)
    await buses.happen("one", "two", "three")
    with capture_logs() as logs:
        await publisher.step()
    assert names(bus) == ["one"]
    assert (logs[0]["event"], logs[0]["error"]) == ("event_bus_failed", "no")
    failing = False
    await publisher.step()
    assert names(bus) == ["one"], "it must wait for the backoff"
    buses.scheduling.clock.advance(seconds=LONGEST_WAIT.total_seconds())
    await publisher.step()
    assert names(bus) == ["one", "two", "three"]


async def test_an_event_that_the_bus_refuses_is_dropped_and_the_next_is_sent(buses: Buses) -> None:
    def judge(message: BusMessage) -> Exception | None:
        return EventRefusedError("too large") if b"two" in message.body else None

    bus = ProbeBus(judge=judge)
    publisher = await buses.publisher(bus)
    await buses.happen("one", "two", "three")
    await publisher.publish_once()
    assert names(bus) == ["one", "three"]
    (row,) = await buses.scheduling.rows("event_bus", "name")
    assert row["dropped"] == 1


async def test_an_adapter_with_a_bug_does_not_end_the_replica(buses: Buses) -> None:
    bus = ProbeBus(judge=lambda _: ZeroDivisionError("a bug"))
    publisher = await buses.publisher(bus)
    await buses.happen("one")
    await publisher.step()
    (row,) = await buses.scheduling.rows("event_bus", "name")
    assert row["last_error"] == "ZeroDivisionError: a bug"


async def test_events_of_many_tenants_are_published_concurrently(buses: Buses) -> None:
    bus = ProbeBus(holds=True)
    publisher = await buses.publisher(bus)
    await buses.scheduling.execute(
        "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
        " SELECT 't' || n, 'dev.tenantcron.tenant.changed', 'x', now(), '{}'"
        " FROM generate_series(1, :number) AS n",
        number=IN_FLIGHT + 10,
    )
    await buses.place()
    step = asyncio.create_task(publisher.step())
    async with asyncio.timeout(30):
        while len(bus.messages) < IN_FLIGHT:
            bus.arrived.clear()
            await bus.arrived.wait()
    assert len(bus.messages) == IN_FLIGHT
    bus.go.set()
    await step
    assert len(bus.messages) == IN_FLIGHT + 10


async def test_two_buses_have_their_own_positions(buses: Buses) -> None:
    scheduling = buses.scheduling
    await buses.publisher(ProbeBus())
    async with scheduling.database.transaction() as connection:
        await event_buses.declare(connection, "other/one", scheduling.clock())
    await buses.happen("one")
    await buses.publishers[0].publish_once()
    assert len(await scheduling.rows("bus_event", "place")) == 1
    async with scheduling.database.transaction() as connection:
        lease = await event_buses.take(
            connection, "other/one", events=10, lease=LEASE, at=scheduling.clock()
        )
        assert lease is not None
        place = lease.events[0].event.place
        progress = event_buses.BusProgress(published=place)
        assert await event_buses.release(connection, lease, progress, scheduling.clock())
    assert await scheduling.rows("bus_event", "place") == []


async def test_old_events_are_dropped_counted_and_logged(buses: Buses) -> None:
    scheduling = buses.scheduling
    await buses.publisher(ProbeBus())
    await buses.happen("old", "older")
    placed = "UPDATE tenantcron.bus_event SET placed_at = :at"
    await scheduling.execute(placed, at=scheduling.clock())
    scheduling.clock.advance(days=8)
    # A replica is still configured for it.
    await buses.publisher(ProbeBus(is_up=False), "two")
    await buses.happen("young")
    await scheduling.execute(f"{placed} WHERE subject = 'young'", at=scheduling.clock())
    with capture_logs() as logs:
        await clean_up(scheduling.replica())
    dropped = [entry for entry in logs if entry["event"] == "event_bus_events_dropped"]
    assert [(entry["bus"], entry["events"]) for entry in dropped] == [("probe/probe", 2)]
    (row,) = await scheduling.rows("event_bus", "name")
    assert row["dropped"] == 2
    (left,) = await scheduling.rows("bus_event", "place")
    assert left["subject"] == "young"


async def test_a_bus_without_replicas_is_forgotten_and_no_events_are_written(buses: Buses) -> None:
    scheduling = buses.scheduling
    await buses.publisher(ProbeBus())
    await buses.happen("one")
    scheduling.clock.advance(days=8)
    with capture_logs() as logs:
        await clean_up(scheduling.replica())
    assert "event_bus_forgotten" in [entry["event"] for entry in logs]
    assert await scheduling.rows("bus_event", "place") == []
    triggers = "SELECT 1 FROM pg_trigger WHERE tgname = 'execution_told'"
    assert await scheduling.query(triggers) == []
    await scheduling.waiting(1)
    (claimed,) = await scheduling.claim_all()
    await scheduling.finish(claimed)
    assert await scheduling.rows("outbox", "id") == []


async def test_a_bus_that_is_down_delays_no_execution(real: Scheduling) -> None:
    bus, works = ProbeBus(), Works()
    bus.judge = lambda _: BusError("down")
    clockless = Buses(real)
    publisher = await clockless.publisher(bus, declared=False)
    async with at_work(real, works, publisher=publisher):
        for number in range(5):
            await due(real, "quick", tenant=f"on-time-{number}", start_within="1m")
        await until_state(real, "SUCCEEDED", 5)


def test_ids_of_messages_are_ids_of_events() -> None:
    id_ = UUID(int=7)
    assert BusMessage(id_, "acme", "x", b"secret").id == id_  # type: ignore[arg-type] # a tenant id
    assert "secret" not in repr(BusMessage(id_, "acme", "x", b"secret"))  # type: ignore[arg-type] # as above


def test_the_last_call_of_a_lease_ends_before_the_lease() -> None:
    from tenantcron.events import publisher  # noqa: PLC0415 -- its numbers

    # A connect, a visit, one more message, and the close of the connection.
    longest = publisher.LONGEST_VISIT + publisher.LONGEST_CALL
    assert longest + timedelta(seconds=5) < publisher.LEASE
