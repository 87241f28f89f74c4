"""A process with the counting service and the faulty networks.

**The service** has one effect per idempotency key, as required of targets, and appends a line to a
file for every request (`R`) and every effect (`E`). The path selects its behaviour: `/quick`,
`/late` (responds after a second), `/flaky` (503 to the first request of a key), `/mute` (has its
effect and does not respond to the first request of a key).

**A network** is a proxy between its clients and one of the servers. It can be cut (all connections
are reset), slow (every chunk is delayed), half-open or silent (nothing passes in either direction,
and connections are not closed), and pointed at another server: existing connections stay with
theirs. Silence is independent of the other states: neither a cut nor healing ends it.

There are three: `near` for victims, `far` for a supervised scheduler, and `replication` between the
servers.

Commands come through stdin, one line each: a network, a command and a number. The ports of the
service and of the networks are printed to stdout.
"""

import asyncio
import os
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

NETWORKS = ("near", "far", "replication")
_CHUNK = 1 << 16
_LATE = 1.0


class CountingService:
    """Counts requests and effects by idempotency key."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._seen: set[str] = set()
        self._done: set[str] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        await reader.readexactly(int(headers.get("content-length", "0")))
        key, attempt = headers["idempotency-key"], headers["x-tenantcron-attempt"]
        status = self._work(path, key, attempt)
        if status is None:
            await reader.read()
            return False
        if path == "/late":
            await asyncio.sleep(_LATE)
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        return True

    def _work(self, path: str, key: str, attempt: str) -> int | None:
        """Return the status of the response, None for no response."""
        is_first = key not in self._seen
        self._seen.add(key)
        self._note("R", key, attempt)
        if path == "/flaky" and is_first:
            return 503
        if key not in self._done:
            self._done.add(key)
            self._note("E", key, attempt)
        return None if path == "/mute" and is_first else 200

    def _note(self, what: str, key: str, attempt: str) -> None:
        line = f"{what} {key} {attempt} {time.time_ns() // 1000}\n"
        os.write(self._file, line.encode())


class Network:
    """A proxy to the servers."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._server = 0
        self._open: set[StreamWriter] = set()
        self._passing, self._audible = asyncio.Event(), asyncio.Event()
        self._passing.set()
        self._audible.set()
        self._delay = 0.0

    async def connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Connect a client to the server."""
        await self._audible.wait()
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._ports[self._server])
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, ours}
        await asyncio.gather(self._pass(reader, ours), self._pass(theirs, writer))
        self._open -= {writer, ours}

    async def _pass(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._passing.wait()
                await self._audible.wait()
                writer.write(data)
                await writer.drain()
        # The end of a connection does not pass either.
        await self._audible.wait()
        writer.close()

    def cut(self, _: float) -> None:
        """Reset all connections."""
        if self._audible.is_set():
            for writer in self._open:
                writer.transport.abort()

    def slow(self, seconds: float) -> None:
        """Delay every chunk by this many seconds."""
        self._delay = seconds

    def half_open(self, _: float) -> None:
        """Pass nothing from now on."""
        self._passing.clear()

    def heal(self, _: float) -> None:
        """Work normally again."""
        self._delay = 0.0
        self._passing.set()

    def silence(self, _: float) -> None:
        """Pass nothing, neither bytes nor the end of a connection."""
        self._audible.clear()

    def speak(self, _: float) -> None:
        """End the silence."""
        self._audible.set()

    def point(self, server: float) -> None:
        """Route new connections to another server."""
        self._server = int(server)


async def serve(effects: Path, ports: Sequence[int]) -> None:
    """Serve until the input ends."""
    service, networks = CountingService(effects), {name: Network(ports) for name in NETWORKS}
    callbacks = [service.serve, *(network.connect for network in networks.values())]
    servers = [await asyncio.start_server(callback, "127.0.0.1", 0) for callback in callbacks]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    reader = StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, word, number = line.decode().split()
        orders(networks[name])[word](float(number))


def orders(network: Network) -> dict[str, Callable[[float], None]]:
    """Return the commands of a network, by name."""
    return {
        "cut": network.cut,
        "slow": network.slow,
        "half_open": network.half_open,
        "heal": network.heal,
        "silence": network.silence,
        "speak": network.speak,
        "point": network.point,
    }


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
