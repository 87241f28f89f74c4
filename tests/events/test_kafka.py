"""Events in the test broker of the Kafka client library (librdkafka's mock cluster)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.buses import Buses
from support.nats_server import free_port, require
from support.scheduling import Scheduling

from tenantcron.events.bus import BusAddress, BusConfig, EventRefusedError

EVENTS = 20


@pytest.fixture
def buses(scheduling: Scheduling) -> Buses:
    return Buses(scheduling)


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Three brokers, which live as long as the client that hosts them."""
    library = require("confluent_kafka")
    host = library.Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3})
    found = host.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found)
    del host


def consumed(brokers: str, topic: str, number: int) -> list[Any]:
    """Read messages of all partitions."""
    library = require("confluent_kafka")
    reader = library.Consumer(
        {"bootstrap.servers": brokers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
    reader.assign([library.TopicPartition(topic, part, 0) for part in partitions])
    messages: list[Any] = []
    while len(messages) < number:
        message = reader.poll(30)
        assert message is not None
        assert message.error() is None
        messages.append(message)
    assert reader.poll(0.5) is None
    reader.close()
    return messages


async def test_a_tenants_events_are_in_one_partition_in_order(buses: Buses, brokers: str) -> None:
    publisher = await buses.publisher(f"kafka://{brokers}/ordered")
    expected = [f"e{number}" for number in range(EVENTS)]
    for tenant in ("acme", "beta"):
        await buses.happen(*expected, tenant=tenant)
    await publisher.publish_once()
    await publisher.close()
    assert await buses.scheduling.rows("bus_event", "place") == []

    messages = consumed(brokers, "ordered", 2 * EVENTS)
    for tenant in ("acme", "beta"):
        own = [message for message in messages if message.key() == tenant.encode()]
        events = [json.loads(message.value()) for message in own]
        assert [event["subject"] for event in events] == expected
        assert len({message.partition() for message in own}) == 1
        assert all(event["tenant"] == tenant for event in events)
    ((name, kind),) = messages[0].headers()
    assert (name, kind.split(b";")[0]) == ("content-type", b"application/cloudevents+json")


async def test_brokers_that_are_down_are_reported_with_their_reason(
    buses: Buses, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("confluent_kafka")
    from tenantcron.events.kafka import adapter  # noqa: PLC0415 -- skipped where it is missing

    monkeypatch.setattr(adapter, "_MESSAGE_TIMEOUT", 500)
    publisher = await buses.publisher(f"kafka://127.0.0.1:{free_port()}/events")
    await buses.happen("one")
    with capture_logs() as logs:
        await publisher.step()
    assert logs[0]["event"] == "event_bus_failed"
    assert "refused" in logs[0]["error"].lower()
    assert len(await buses.scheduling.rows("bus_event", "place")) == 1


def test_the_producer_waits_for_all_replicas_and_is_idempotent() -> None:
    require("confluent_kafka")
    from tenantcron.events.kafka.adapter import open_bus  # noqa: PLC0415 -- as above

    address = BusAddress("kafka", uses_tls=False, hosts=("localhost:9092",), path="events")
    options = open_bus(BusConfig(address=address))._options()
    assert options["acks"] == "all"
    assert options["enable.idempotence"] is True


def test_an_event_that_is_too_large_is_refused() -> None:
    library = require("confluent_kafka")
    from tenantcron.events.kafka.adapter import open_bus  # noqa: PLC0415 -- as above

    address = BusAddress("kafka", uses_tls=False, hosts=("localhost:9092",), path="events")
    error = library.KafkaError(library.KafkaError.MSG_SIZE_TOO_LARGE)
    assert isinstance(open_bus(BusConfig(address=address))._failure(error), EventRefusedError)
