"""NATS JetStream: `nats://host:4222,host:4222/STREAM?prefix=tenantcron`, or `nats+tls://`.

A message has the subject `<prefix>.<tenant>.<type>`, such as `tenantcron.acme.execution.dead`. A
tenant id has no dots, spaces or wildcards, so it is always one token.

`Nats-Msg-Id` is the id of the event: the server ignores a message that it has stored within the
duplicate window of the stream. `Nats-Expected-Stream` makes sure that it is stored in this stream
only. If the stream is missing, it is created with file storage. An existing stream is not changed.

The connection is not re-established by the client library: the publisher connects again after its
backoff, and no message is sent outside of a lease.
"""

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client
from nats.errors import Error, MaxPayloadError, NoServersError
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from tenantcron.core.errors import UsageError
from tenantcron.core.names import is_tenant_id
from tenantcron.events.bus import (
    SETTING,
    BusConfig,
    BusError,
    BusMessage,
    EventRefusedError,
    unknown_options,
)
from tenantcron.events.cloud_events import ONE_EVENT
from tenantcron.events.tls import tls_context

DEFAULT_STREAM: Final = "TENANTCRON"
DEFAULT_PREFIX: Final = "tenantcron"
# Ids are kept in the memory of the server for this long.
DUPLICATE_WINDOW_SECONDS: Final = 600.0

_CONNECT_SECONDS: Final = 5
_CLOSE_SECONDS: Final = 1.0
_STREAM: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,7}")


def open_bus(config: BusConfig) -> "NatsBus":
    """Return the bus of a URL, not connected yet."""
    address = config.address
    stream = address.path or DEFAULT_STREAM
    prefix = address.options.get("prefix", DEFAULT_PREFIX)
    problems = unknown_options(address, ("prefix",))
    if _STREAM.fullmatch(stream) is None:
        problems.append(f"{SETTING}: {stream!a} is not a stream: letters, digits, _ and - only")
    if _PREFIX.fullmatch(prefix) is None or len(prefix) > 128:
        problems.append(
            f"{SETTING}: the prefix {prefix!a} is not words of letters, digits, _ and -, "
            "separated by dots"
        )
    if problems:
        raise UsageError("\n".join(problems))
    return NatsBus(config, stream, prefix)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Login:
    """What a client logs in with."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


class NatsBus:
    """Publishes to one stream."""

    def __init__(self, config: BusConfig, stream: str, prefix: str) -> None:
        self._config, self._stream, self._prefix = config, stream, prefix
        self._client: Client | None = None
        self._jetstream: JetStreamContext | None = None
        # Done when the connection is lost; messages in flight would wait for their timeout.
        self._lost: asyncio.Future[None] | None = None
        self._last_error: str | None = None

    @property
    def destination(self) -> str:
        """The stream."""
        return self._stream

    async def connect(self) -> None:
        """Connect, and create the stream if it is missing."""
        if self._jetstream is not None and self._lost is not None and not self._lost.done():
            return
        await self.close()
        self._last_error = None
        self._lost = asyncio.get_running_loop().create_future()
        login = await self._login()
        try:
            # Kept before it connects, so that a cancelled attempt is closed as well.
            client = self._client = Client()
            await client.connect(
                self._servers(),
                name="tenantcron",
                allow_reconnect=False,
                connect_timeout=_CONNECT_SECONDS,
                # Each server is tried twice, at once.
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=self._note,
                closed_cb=self._note_loss,
                tls=tls_context(self._config.ca_file) if self._config.address.uses_tls else None,
                user=login.user,
                password=login.password,
                token=login.token,
            )
            jetstream = client.jetstream(timeout=_CONNECT_SECONDS)
            await self._ensure_stream(jetstream)
        except (Error, OSError) as error:
            raise BusError(f"cannot connect to NATS: {self._reason(error)}") from error
        self._jetstream = jetstream

    async def publish(self, message: BusMessage) -> None:
        """Publish a message, and wait until the stream has stored it."""
        if self._jetstream is None or self._lost is None:
            raise BusError("not connected to NATS")
        sending = asyncio.ensure_future(self._send(self._jetstream, message))
        try:
            await asyncio.wait({sending, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise BusError(f"the connection to NATS was lost: {self._last_error or 'closed'}")
            await sending
        finally:
            sending.cancel()

    async def close(self) -> None:
        """Disconnect."""
        client, self._client, self._jetstream = self._client, None, None
        if client is not None:
            # After a failed handshake the client waits for a transport that never ends.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()

    async def _send(self, jetstream: JetStreamContext, message: BusMessage) -> None:
        headers = {"Nats-Msg-Id": str(message.id), "Content-Type": ONE_EVENT}
        subject = self._subject(message)
        try:
            await jetstream.publish(subject, message.body, stream=self._stream, headers=headers)
        except MaxPayloadError as error:
            raise EventRefusedError(f"{len(message.body)} bytes exceed max_payload") from error
        except NoStreamResponseError as error:
            raise BusError(f"no stream stores {subject}: add it to {self._stream}") from error
        except Error as error:
            raise BusError(f"NATS did not store a message: {self._reason(error)}") from error

    def _subject(self, message: BusMessage) -> str:
        if not is_tenant_id(message.tenant):
            raise EventRefusedError(f"{message.tenant!a} cannot be a token of a subject")
        return f"{self._prefix}.{message.tenant}.{message.type}"

    async def _ensure_stream(self, jetstream: JetStreamContext) -> None:
        try:
            await jetstream.stream_info(self._stream)
        except NotFoundError:
            wanted = StreamConfig(
                name=self._stream,
                subjects=[f"{self._prefix}.>"],
                storage=StorageType.FILE,
                duplicate_window=DUPLICATE_WINDOW_SECONDS,
            )
            try:
                await jetstream.add_stream(wanted)
            except APIError:
                # Another replica may have created it; otherwise this raises again.
                await jetstream.stream_info(self._stream)

    def _servers(self) -> list[str]:
        scheme = "tls" if self._config.address.uses_tls else "nats"
        return [f"{scheme}://{host}" for host in self._config.address.hosts]

    async def _login(self) -> "_Login":
        """Read `user:password`, or a token."""
        if self._config.read_credentials is None:
            return _Login()
        text = await self._config.read_credentials()
        user, colon, password = text.partition(":")
        return _Login(user=user, password=password) if colon else _Login(token=text)

    async def _note(self, error: Exception) -> None:
        self._last_error = self._reason(error)

    async def _note_loss(self) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def _reason(self, error: Exception) -> str:
        """Return the words of an error, and the last reported one as the cause of a vague one."""
        words = str(error).removeprefix("nats: ") or type(error).__name__
        if isinstance(error, ConnectionError) and error.errno is not None:
            words = os.strerror(error.errno)
        is_vague = isinstance(error, TimeoutError | NoServersError)
        return f"{words}: {self._last_error}" if is_vague and self._last_error else words
