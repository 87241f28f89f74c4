"""Real HTTP services on loopback, with the behaviour that a test needs."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Received:
    """A received request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    # Requests on the same connection have the same number.
    connection: int


Behaviour = Callable[[Received, StreamWriter], Awaitable[None]]


def answering(status: int = 200, body: bytes = b"", **headers: str) -> Behaviour:
    """Respond to every request in the same way; use `_` for `-` in headers."""

    async def answer(_: Received, writer: StreamWriter) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *lines, "", ""]
        writer.write("\r\n".join(head).encode("latin-1") + body)
        await writer.drain()

    return answer


def writing(*parts: bytes) -> Behaviour:
    """Respond with these bytes, and close."""

    async def write(_: Received, writer: StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        writer.close()

    return write


async def forever(_: Received, __: StreamWriter) -> None:
    """Never respond."""
    await asyncio.Event().wait()


@dataclass(slots=True)
class Service:
    """A service that records its requests."""

    behaviour: Behaviour
    port: int = 0
    received: list[Received] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when a client disconnects before the response.
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    open: dict[StreamWriter, "asyncio.Task[None] | None"] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def only(self) -> Received:
        """The only request."""
        (request,) = self.received
        return request

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        number = self.connections
        self.open[writer] = asyncio.current_task()
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await _request(reader, number)
                self.received.append(request)
                self.arrived.set()
                await self._behave(request, reader, writer)
        writer.close()

    async def close(self) -> None:
        """Close open connections."""
        for writer, task in self.open.items():
            if task is not None:
                task.cancel()
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _behave(self, request: Received, reader: StreamReader, writer: StreamWriter) -> None:
        """Respond, unless the client disconnects first."""
        answer = asyncio.ensure_future(self.behaviour(request, writer))
        left = asyncio.ensure_future(_end(reader))
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answer.cancel()
            left.cancel()
            (outcome, _) = await asyncio.gather(answer, left, return_exceptions=True)
        if isinstance(outcome, ConnectionError | asyncio.CancelledError):
            self.hung_up.set()
        elif outcome is not None:
            raise outcome


async def _end(reader: StreamReader) -> None:
    """Wait until the client closes; it sends nothing before the response."""
    while not reader.at_eof():
        await asyncio.sleep(0.005)


async def _request(reader: StreamReader, connection: int) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    pairs = [line.partition(": ") for line in head[1:] if line]
    headers = {name.lower(): value for name, _, value in pairs}
    assert len(headers) == len(pairs), "a header came twice"
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body, connection)


@asynccontextmanager
async def service(
    behaviour: Behaviour | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Service]:
    """Serve on a free port, until the end of the block."""
    made = Service(behaviour or answering())
    server = await asyncio.start_server(made.serve, LOOPBACK, 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
