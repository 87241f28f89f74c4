"""Publishing to a broker, with confirmations, outside of the event loop.

kombu blocks, so messages are published in threads. Each thread has its own connection, because
connections cannot be shared. Every step has a deadline; a connection that failed is not used again.
"""

import asyncio
import os
import select
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from ssl import CERT_REQUIRED
from threading import Lock, local
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonValue
from tenantcron.targets.responses import RetryCall, redacted

if TYPE_CHECKING:
    from kombu import Connection, Producer

SCHEMES: Final = ("amqp", "amqps", "redis", "rediss")
# More threads would only wait for the same broker.
_THREADS: Final = 4
_CONNECT_SECONDS: Final = 5.0
_CONFIRM_SECONDS: Final = 10.0
# For a message that also waits for a thread.
_PUBLISH_SECONDS: Final = 20.0
# A firewall may have dropped a connection that was idle for longer, without a sign.
_IDLE_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 1.0
_LONGEST_URL: Final = 4096
_NO_ROUTE: Final = 312
_PERSISTENT: Final = 2


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """A message in the format of Celery."""

    queue: str
    body: object = field(repr=False)
    headers: Mapping[str, JsonValue] = field(repr=False)
    properties: Mapping[str, JsonValue]


@dataclass(slots=True)
class _BrokerLine:
    """The connection of one thread."""

    connection: "Connection"
    producer: "Producer"
    used_at: float

    @property
    def is_stale(self) -> bool:
        """Whether the broker has closed it, or it was idle for too long."""
        if monotonic() - self.used_at > _IDLE_SECONDS or not self.connection.connected:
            return True
        transport = getattr(self.connection.connection, "transport", None)
        if transport is None:
            return False  # Redis: its client checks the connection
        # Nothing is expected between two messages: this is the end of the connection. Unlike
        # `select`, `poll` accepts descriptors from 1024 on.
        waiting = select.poll()
        waiting.register(transport.sock, select.POLLIN)
        return bool(waiting.poll(0))


class BrokerPublisher:
    """Publishes the messages of one replica."""

    def __init__(self, broker: SecretRef, ca_file: Path | None) -> None:
        self._broker, self._ca_file = broker, ca_file
        self._threads = ThreadPoolExecutor(_THREADS, "celery-publisher")
        self._own = local()
        self._open: dict[int, _BrokerLine] = {}
        self._lock = Lock()

    async def publish(self, message: TaskMessage) -> None:
        """Return when the broker has confirmed the message; raise a RetryCall otherwise."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PUBLISH_SECONDS):
                await loop.run_in_executor(self._threads, self._publish, message)
        except TimeoutError:
            raise RetryCall(
                f"the Celery broker has not confirmed the message within {_PUBLISH_SECONDS:g} s"
            ) from None

    async def close(self) -> None:
        """Close all connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            lines, self._open = list(self._open.values()), {}
        for line in lines:
            await asyncio.to_thread(line.connection.collect, _CLOSE_SECONDS)

    def _publish(self, message: TaskMessage) -> None:
        from amqp.exceptions import AMQPError, ChannelError  # noqa: PLC0415 -- part of the extra
        from kombu.exceptions import KombuError  # noqa: PLC0415 -- as above

        url = read_broker(self._broker)
        line = self._line(url)
        failures = (AMQPError, KombuError, OSError, *line.connection.connection_errors)
        try:
            _send(line, message)
        except failures as error:
            self._drop(line)
            if isinstance(error, ChannelError) and error.reply_code == _NO_ROUTE:
                raise RetryCall(
                    f"the queue {message.queue} does not exist: start a worker that consumes it"
                ) from None
            raise RetryCall(f"the Celery broker failed: {_reason(error, url)}") from None

    def _line(self, url: str) -> _BrokerLine:
        line: _BrokerLine | None = getattr(self._own, "line", None)
        if line is not None and (self._own.url != url or line.is_stale):
            self._drop(line)
            line = None
        if line is None:
            line = self._own.line = _connect(url, self._ca_file)
            self._own.url = url
            with self._lock:
                self._open[id(line)] = line
        return line

    def _drop(self, line: _BrokerLine) -> None:
        self._own.line = None
        with self._lock:
            self._open.pop(id(line), None)
        line.connection.collect(_CLOSE_SECONDS)


def read_broker(ref: SecretRef) -> str:
    """Read the URL of the broker; raise a RetryCall if it is missing, because it may be added."""
    try:
        url = os.environ.get(ref.name, "") if ref.kind == "env" else _content(Path(ref.name))
    except (OSError, UnicodeDecodeError):
        url = ""
    url = url.strip()
    if url.partition("://")[0] not in SCHEMES:
        # The text is not shown: it has a password.
        raise RetryCall(
            f"celery_broker: {ref} has no URL that begins with {', '.join(SCHEMES)}, and ://"
        )
    return url


def _content(file: Path) -> str:
    with file.open(encoding="utf-8") as opened:
        return opened.read(_LONGEST_URL)


def _connect(url: str, ca_file: Path | None) -> _BrokerLine:
    from kombu import Connection, Producer  # noqa: PLC0415 -- part of the extra

    parts = urlsplit(url)
    is_redis = parts.scheme.startswith("redis")
    options: dict[str, JsonValue] = (
        {
            "socket_timeout": _CONFIRM_SECONDS,
            "socket_connect_timeout": _CONNECT_SECONDS,
            "retry_on_timeout": False,
        }
        if is_redis
        else {
            "confirm_publish": True,
            "read_timeout": _CONFIRM_SECONDS,
            "write_timeout": _CONFIRM_SECONDS,
            "max_retries": 0,
        }
    )
    connection = Connection(
        url,
        connect_timeout=_CONNECT_SECONDS,
        transport_options=options,
        ssl=_tls(parts.hostname, ca_file, is_redis=is_redis)
        if parts.scheme in ("amqps", "rediss")
        else None,
    )
    return _BrokerLine(connection, Producer(connection, auto_declare=False), monotonic())


def _tls(host: str | None, ca_file: Path | None, *, is_redis: bool) -> dict[str, object]:
    """Return options that verify the certificate; neither library does so by default."""
    import certifi  # noqa: PLC0415 -- not needed without TLS

    authorities = str(ca_file) if ca_file is not None else certifi.where()
    if is_redis:
        return {
            "ssl_cert_reqs": CERT_REQUIRED,
            "ssl_ca_certs": authorities,
            "ssl_check_hostname": True,
        }
    # Given a host name, py-amqp also compares it with the certificate.
    return {"cert_reqs": CERT_REQUIRED, "ca_certs": authorities, "server_hostname": host}


def _send(line: _BrokerLine, message: TaskMessage) -> None:
    # The default exchange routes to the queue of this name, and declares nothing: its arguments are
    # the business of the workers. `mandatory` returns a message that no queue takes.
    line.producer.publish(
        message.body,
        exchange="",
        routing_key=message.queue,
        headers=dict(message.headers),
        serializer="json",
        delivery_mode=_PERSISTENT,
        mandatory=True,
        retry=False,
        timeout=_CONFIRM_SECONDS,
        confirm_timeout=_CONFIRM_SECONDS,
        **message.properties,
    )
    line.used_at = monotonic()


def _reason(error: BaseException, url: str) -> str:
    hidden = [url, urlsplit(url).password or ""]
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return redacted(str(error) or type(error).__name__, hidden)
