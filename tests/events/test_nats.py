"""Events in a real NATS server with JetStream, which crashes and comes back."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from structlog.testing import capture_logs
from support.buses import Buses
from support.nats_server import NatsServer, Stored, free_port, nats_server, stored
from support.scheduling import Scheduling

from tenantcron.core.secret_refs import SecretRef
from tenantcron.events.bus import BusMessage
from tenantcron.events.opening import NamedBus, open_bus
from tenantcron.events.publisher import LEASE, BusPublisher

TENANTS = ("acme", "beta", "gamma")
EVENTS = 40


@pytest.fixture
def buses(scheduling: Scheduling) -> Buses:
    return Buses(scheduling)


def subjects(messages: list[Stored], tenant: str) -> list[object]:
    return [message.event["subject"] for message in messages if message.event["tenant"] == tenant]


async def happen(buses: Buses) -> list[str]:
    await buses.scheduling.execute(
        "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
        " SELECT t, 'dev.tenantcron.tenant.changed', n::text, now(), '{}'"
        " FROM generate_series(1, :number) AS g (n), unnest(CAST(:tenants AS text[])) AS t"
        " ORDER BY g.n",
        number=EVENTS,
        tenants=list(TENANTS),
    )
    await buses.place()
    return [str(number) for number in range(1, EVENTS + 1)]


async def test_a_message_is_the_event_with_its_id_and_subject(
    buses: Buses, nats: NatsServer
) -> None:
    publisher = await buses.publisher(f"{nats.url}/SHAPE?prefix=shape.cron")
    await buses.happen("schedules/nightly", tenant="a-b_c")
    (row,) = await buses.scheduling.rows("bus_event", "place")
    await publisher.publish_once()
    await publisher.close()
    (message,) = await stored(nats, "SHAPE")
    assert message.subject == "shape.cron.a-b_c.tenant.changed"
    assert message.id == str(row["event_id"]) == message.event["id"]
    assert message.headers["Content-Type"].startswith("application/cloudevents+json")
    assert message.event["specversion"] == "1.0"
    assert message.event["subject"] == "schedules/nightly"


async def test_no_event_is_lost_or_reordered_if_the_server_is_killed(
    buses: Buses, tmp_path: Path
) -> None:
    with nats_server(tmp_path) as server:
        watched = _Watched(buses.named(f"{server.url}/CRASH"), (15, 40, 80))
        publisher = await buses.publisher(watched)
        expected = await happen(buses)
        for _ in range(3):
            step = asyncio.create_task(publisher.step())
            await watched.reached.wait()
            # In the middle of the stream: each tenant has a message in flight.
            server.kill()
            await step
            assert await buses.scheduling.rows("bus_event", "place")
            watched.reached.clear()
            server.start()
            buses.scheduling.clock.advance(seconds=LEASE.total_seconds())
        await publisher.publish_once()
        await publisher.close()
        messages = await stored(server, "CRASH")
    for tenant in TENANTS:
        assert subjects(messages, tenant) == expected


async def test_the_server_drops_what_a_killed_replica_had_not_recorded(
    buses: Buses, nats: NatsServer
) -> None:
    url = f"{nats.url}/TWICE?prefix=twice"
    # As a process that is killed before it records what it has published.
    watched = _Watched(buses.named(url), (10,), stops=True)
    victim = await buses.publisher(watched)
    expected = await happen(buses)
    step = asyncio.create_task(victim.step())
    await watched.reached.wait()
    step.cancel()
    with suppress(asyncio.CancelledError):
        await step
    await victim.close()
    before = await stored(nats, "TWICE")
    assert before, "the killed replica has published events"

    second = await buses.publisher(buses.named(url).bus, "two")
    buses.scheduling.clock.advance(seconds=LEASE.total_seconds() + 1)
    await second.publish_once()
    await second.close()
    messages = await stored(nats, "TWICE")
    assert len(messages) == EVENTS * len(TENANTS)
    for tenant in TENANTS:
        assert subjects(messages, tenant) == expected


class _Watched:
    """A bus that reports when it has stored a number of messages, and may stop there."""

    def __init__(self, named: NamedBus, marks: Sequence[int], *, stops: bool = False) -> None:
        self._bus, self._marks, self._stops, self._number = named.bus, marks, stops, 0
        self.destination = "probe"
        self.reached = asyncio.Event()
        self.connect, self.close = self._bus.connect, self._bus.close

    async def publish(self, message: BusMessage) -> None:
        await self._bus.publish(message)
        self._number += 1
        if self._number in self._marks or (self._stops and self.reached.is_set()):
            self.reached.set()
            if self._stops:
                await asyncio.Event().wait()


async def test_a_server_that_is_down_is_reported_with_its_reason(buses: Buses) -> None:
    publisher = await buses.publisher(f"nats://127.0.0.1:{free_port()}")
    await buses.happen("one")
    with capture_logs() as logs:
        await publisher.step()
    (entry,) = logs
    assert entry["event"] == "event_bus_failed"
    assert "cannot connect to NATS" in entry["error"]
    assert "refused" in entry["error"].lower()


async def test_an_event_larger_than_the_server_allows_is_dropped(
    buses: Buses, nats: NatsServer
) -> None:
    publisher = await buses.publisher(f"{nats.url}/LARGE?prefix=large")
    await buses.happen("one", "two")
    await buses.scheduling.execute(
        "UPDATE tenantcron.bus_event SET data = jsonb_build_object('x', repeat('x', 1100000))"
        " WHERE subject = 'one'"
    )
    await publisher.publish_once()
    await publisher.close()
    assert subjects(await stored(nats, "LARGE"), "acme") == ["two"]
    (row,) = await buses.scheduling.rows("event_bus", "name")
    assert (row["dropped"], row["last_error"]) == (1, None)


async def test_an_existing_stream_is_used_as_it_is(buses: Buses, nats: NatsServer) -> None:
    import nats as library  # noqa: PLC0415 -- skipped where it is missing

    client = await library.connect(nats.url)
    await client.jetstream().add_stream(name="MINE", subjects=["elsewhere.>"])
    await client.close()
    publisher = await buses.publisher(f"{nats.url}/MINE?prefix=mine")
    await buses.happen("one")
    await publisher.step()
    (row,) = await buses.scheduling.rows("event_bus", "name")
    assert "no stream stores mine.acme.tenant.changed" in row["last_error"]


async def test_credentials_and_certificates_are_checked(
    buses: Buses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    served = authority.issue_cert("localhost")
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    served.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    served.private_key_pem.write_to_path(tmp_path / "key.pem")
    config = tmp_path / "nats.conf"
    config.write_text(
        'authorization {user: "cron", password: "correct-horse"}\n'
        f'tls {{cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/key.pem"}}\n',
        encoding="utf-8",
    )
    (tmp_path / "store").mkdir()
    with nats_server(tmp_path / "store", "--config", str(config)) as server:
        settings = replace(
            buses.scheduling.settings,
            event_bus=f"nats+tls://localhost:{server.port}/SECURE",
            event_bus_credentials=SecretRef("env", "BUS_SECRET"),
            ca_file=tmp_path / "ca.pem",
        )
        named = open_bus(settings)
        assert named is not None
        publisher = BusPublisher(buses.scheduling.replica().event_delivery, named)
        await publisher.step()
        await buses.happen("one")
        monkeypatch.setenv("BUS_SECRET", "cron:wrong-battery")
        with capture_logs() as logs:
            await publisher.step()
        assert "Authorization" in logs[0]["error"]
        assert "wrong-battery" not in str(logs)
        monkeypatch.setenv("BUS_SECRET", "cron:correct-horse")
        buses.scheduling.clock.advance(minutes=1)
        await publisher.step()
        await publisher.close()
        assert await buses.scheduling.rows("bus_event", "place") == []

        untrusted = open_bus(replace(settings, ca_file=None))
        assert untrusted is not None
        stranger = BusPublisher(buses.scheduling.replica().event_delivery, untrusted)
        await buses.happen("two")
        with capture_logs() as logs:
            await stranger.step()
        assert "certificate verify failed" in logs[0]["error"]
