"""Kafka: `kafka://host:9092,host:9092/topic`, or `kafka+tls://`; `?sasl=` names the mechanism.

The key of a message is the tenant, so all events of a tenant are in one partition, in order. The
producer is idempotent and waits for all in-sync replicas (`acks=all`): retries of the client
library neither duplicate nor reorder messages. If another replica publishes an unrecorded event
again, the message is a duplicate: Kafka does not compare ids of messages. Readers recognise it by
the `id` of the event. The topic has to exist, unless the brokers create topics.

Tested only with the test broker of the client library (librdkafka's mock cluster): no Kafka broker
was available. TLS and SASL are configured as its documentation says, and were not tried.
"""

import asyncio
import logging
import re
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tenantcron.core.errors import UsageError
from tenantcron.events.bus import (
    SETTING,
    BusConfig,
    BusError,
    BusMessage,
    EventRefusedError,
    unknown_options,
)
from tenantcron.events.cloud_events import ONE_EVENT
from tenantcron.events.tls import ca_certificates

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Shorter than the publisher's limit, so that the report of the broker says why.
_MESSAGE_TIMEOUT: Final = 8000
_POLL_SECONDS: Final = 0.5
_FLUSH_SECONDS: Final = 1.0
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")

# Failures are reported by the publisher; the library would write them to stderr.
_silent = logging.getLogger(f"{__name__}.librdkafka")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def open_bus(config: BusConfig) -> "KafkaBus":
    """Return the bus of a URL, not connected yet."""
    address = config.address
    mechanism = address.options.get("sasl", MECHANISMS[-1])
    problems = unknown_options(address, ("sasl",))
    if _TOPIC.fullmatch(address.path) is None:
        problems.append(
            f"{SETTING}: write the topic after the hosts, such as kafka://host:9092/events"
        )
    if mechanism not in MECHANISMS:
        problems.append(f"{SETTING}: sasl={mechanism!a} is not one of {', '.join(MECHANISMS)}")
    if "sasl" in address.options and config.read_credentials is None:
        problems.append(f"{SETTING}: sasl needs event_bus_credentials")
    if problems:
        raise UsageError("\n".join(problems))
    return KafkaBus(config, address.path, mechanism)


class KafkaBus:
    """Publishes to one topic."""

    def __init__(self, config: BusConfig, topic: str, mechanism: str) -> None:
        self._config, self._topic, self._mechanism = config, topic, mechanism
        self._producer: Producer | None = None
        self._pending: set[asyncio.Future[None]] = set()
        self._polling: asyncio.Task[None] | None = None
        self._last_error: str | None = None

    @property
    def destination(self) -> str:
        """The topic."""
        return self._topic

    async def connect(self) -> None:
        """Create the producer, which connects when it sends."""
        if self._producer is None:
            self._last_error = None
            options = {**self._options(), **await self._credentials()}
            try:
                self._producer = Producer(options, logger=_silent)
            except (KafkaException, ValueError) as error:
                raise BusError(f"Kafka cannot be used: {error}") from error

    async def publish(self, message: BusMessage) -> None:
        """Send a message, and wait until all in-sync replicas have it."""
        producer = self._producer
        if producer is None:
            raise BusError("not connected to Kafka")
        stored = asyncio.get_running_loop().create_future()
        self._pending.add(stored)
        try:
            self._produce(producer, message, stored)
            self._poll(producer)
            await stored
        finally:
            self._pending.discard(stored)

    async def close(self) -> None:
        """Discard messages that are not sent yet, and disconnect."""
        producer, self._producer = self._producer, None
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None
        if producer is not None:
            producer.purge()
            await asyncio.to_thread(producer.flush, _FLUSH_SECONDS)

    def _produce(
        self, producer: Producer, message: BusMessage, stored: asyncio.Future[None]
    ) -> None:
        loop = asyncio.get_running_loop()

        def report(error: KafkaError | None, _: Message) -> None:
            # Called by the thread that polls.
            loop.call_soon_threadsafe(self._settle, stored, error)

        try:
            producer.produce(
                self._topic,
                key=message.tenant.encode(),
                value=message.body,
                headers={"content-type": ONE_EVENT.encode()},
                on_delivery=report,
            )
        except (KafkaException, BufferError) as error:
            raise self._failure(error.args[0] if error.args else error) from error

    def _settle(self, stored: asyncio.Future[None], error: KafkaError | None) -> None:
        if stored.done():
            return
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(self._failure(error))

    def _failure(self, error: object) -> BusError | EventRefusedError:
        if isinstance(error, KafkaError) and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return EventRefusedError("the event is larger than max.message.bytes")
        words = error.str() if isinstance(error, KafkaError) else str(error)
        cause = f": {self._last_error}" if self._last_error else ""
        return BusError(f"Kafka did not store a message: {words}{cause}")

    def _poll(self, producer: Producer) -> None:
        """Serve reports of deliveries as long as messages are in flight."""
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._serve_reports(producer))

    async def _serve_reports(self, producer: Producer) -> None:
        while self._pending:
            await asyncio.to_thread(producer.poll, _POLL_SECONDS)

    def _note(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def _options(self) -> dict[str, object]:
        return {
            "bootstrap.servers": ",".join(self._config.address.hosts),
            "client.id": "tenantcron",
            "enable.idempotence": True,
            "acks": "all",
            # The same partition as the Java client chooses for a key.
            "partitioner": "murmur2_random",
            "message.timeout.ms": _MESSAGE_TIMEOUT,
            "error_cb": self._note,
        }

    async def _credentials(self) -> dict[str, object]:
        uses_tls, read = self._config.address.uses_tls, self._config.read_credentials
        plain = "SSL" if uses_tls else "PLAINTEXT"
        options: dict[str, object] = {"security.protocol": plain}
        if uses_tls:
            options["ssl.ca.pem"] = ca_certificates(self._config.ca_file)
        if read is None:
            return options
        user, _, password = (await read()).partition(":")
        return {
            **options,
            "security.protocol": f"SASL_{plain}",
            "sasl.mechanism": self._mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
