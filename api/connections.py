"""Limits on connections: their number, and the time and size of an incoming request.

- **The head** (request line and headers) must be complete within `head_seconds` after the
  connection opens, or after the first byte that follows the previous request. It has at most
  `head_bytes`. Bytes that arrive do not extend the deadline.
- **The body** must be complete within `body_seconds` after the head. Time in which the server
  itself does not read does not count.
- **Trailers** (header lines after the body) are rejected: they would count as headers but bypass
  the limits of the head and proxies that check headers. Bodies whose framing is far larger than
  their content are rejected, too.
- **Pipelined requests**: at most `pipelined` requests wait for earlier responses.
- **Connections** over the limit `connections` are accepted, but a request gets 503 with
  Retry-After, and the connection is closed. Liveness probes still succeed, because a busy process
  is not broken. Connections over the additional limit `refused` are closed at once, so that the
  process does not run out of file descriptors.

A late head or body closes the connection without a response, because its client may not read one.
These limits are per process, because they protect its sockets and memory. The rate limit of a
caller over all processes is counted in the database (see `callers`).
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any, ClassVar, Final, NoReturn

import structlog
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tenantcron.api.replies import problem_reply
from tenantcron.service.problems import RETRY_AFTER, ApiProblem

log = structlog.get_logger()

LIVENESS: Final = "/healthz"
# Seconds between two log events about too many connections.
_LOG_EVERY: Final = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits on the connections of a process."""

    connections: int = 500
    refused: int = 100
    head_seconds: float = 10.0
    head_bytes: int = 64 * 1024
    body_seconds: float = 60.0
    pipelined: int = 16


class _RefusedRequestError(Exception):
    """Stops the HTTP parser; the connection is closed."""


def bounded_protocol(bounds: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return the protocol class that enforces the limits."""
    return type("BoundedProtocol", (_BoundedProtocol,), {"bounds": bounds})


class _BoundedProtocol(HttpToolsProtocol):
    """A connection with limits."""

    bounds: ClassVar[ConnectionLimits]
    _logged_at: ClassVar[float] = float("-inf")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = True
        # The number of complete heads, and the bytes of the incomplete one.
        self._heads = 0
        self._head_bytes = 0
        # Bytes received after the head, and the part of them that is content.
        self._body_bytes = 0
        self._content_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn declares it
        super().connection_made(transport)
        excess = len(self.connections) - self.bounds.connections
        if excess > 0:
            self._report()
            self.app = self._refuse_busy
        if excess > self.bounds.refused:
            transport.abort()
        else:
            self._expect(self.bounds.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head and self._deadline is None:
            self._expect(self.bounds.head_seconds)
        while data and not self.transport.is_closing():
            room = self.bounds.head_bytes - self._head_bytes if self._in_head else len(data)
            piece, data = data[:room], data[room:]
            self._receive(piece)

    def _receive(self, piece: bytes) -> None:
        in_head, heads = self._in_head, self._heads
        super().data_received(piece)
        is_incomplete = in_head and self._heads == heads
        self._head_bytes = self._head_bytes + len(piece) if is_incomplete else 0
        if not in_head and not self._in_head:
            self._count_framing(len(piece))
        if self._in_head and self._head_bytes >= self.bounds.head_bytes:
            self._refuse_head()

    def _count_framing(self, received: int) -> None:
        self._body_bytes += received
        framing = self._body_bytes - self._content_bytes
        # A chunk of one byte has five bytes of framing.
        if framing > self.bounds.head_bytes + 16 * self._content_bytes:
            self.transport.abort()

    def on_body(self, body: bytes) -> None:
        self._content_bytes += len(body)
        super().on_body(body)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self._refuse("trailers are not supported")
        super().on_header(name, value)

    def _refuse(self, why: str) -> NoReturn:
        self.transport.abort()
        raise _RefusedRequestError(why)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.bounds.pipelined:
            self._refuse("too many pipelined requests")
        self._body_bytes = self._content_bytes = 0
        self._heads += 1
        self._in_head = False
        self._expect(self.bounds.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = True
        self._expect(None)
        super().on_message_complete()

    def _expect(self, seconds: float | None) -> None:
        """Set the deadline of the next part of the request; None for no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.flow.read_paused:
            self._expect(self.bounds.head_seconds)
        else:
            self.transport.abort()

    def _refuse_head(self) -> None:
        """Send a response to a head that is too large; the application has no request to handle."""
        if self.transport.is_closing():
            return
        detail = f"the request line and headers have at most {self.bounds.head_bytes:,} bytes"
        reply = problem_reply(ApiProblem("TC718", detail))
        status = HTTPStatus(reply.status_code)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in reply.raw_headers]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(reply.body))
        self.transport.close()

    async def _refuse_busy(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == LIVENESS:
            await self.config.loaded_app(scope, receive, send)
            return
        detail = f"this process serves {self.bounds.connections} connections already: retry"
        headers = {"Retry-After": str(RETRY_AFTER), "Connection": "close"}
        await problem_reply(ApiProblem("TC717", detail, headers=headers))(scope, receive, send)

    def _report(self) -> None:
        if monotonic() - type(self)._logged_at >= _LOG_EVERY:
            type(self)._logged_at = monotonic()
            log.warning("connections_exhausted", limit=self.bounds.connections)
