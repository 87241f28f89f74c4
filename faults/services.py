"""A process with what stands around the schedulers: the counting service, and bad networks.

**The service** does its work once for each idempotency key, as targets are asked to, and appends a
line for every request (`R`) and every effect (`E`) to a file. Its paths are its moods: `/quick`,
`/late` (answers after a second), `/flaky` (503 to every first request of a key), `/mute` (does its
work and does not answer the first request of a key).

**A network** passes bytes between its clients and one of the servers. It can be cut (all
connections are reset), slow (every piece is held back for a while), half-open or silent (nothing is
passed on in either direction, and no end is notified), and pointed at another server: connections
that exist stay with theirs. Silence is apart from the rest: no cut and no healing ends it.

There are three: `near` for schedulers that are killed soon, `far` for one that is not, and
`replication` between the servers.

Orders come by the standard input, a network, a word and a number a line; the ports of the service
and of the networks go to the standard output.
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


class Ledger:
    """The counting service."""

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
        """Return the status of the answer, None for no answer."""
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
    """A way to the servers."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._server = 0
        self._open: set[StreamWriter] = set()
        self._passing, self._heard = asyncio.Event(), asyncio.Event()
        self._passing.set()
        self._heard.set()
        self._delay = 0.0

    async def connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Join a client to the server."""
        await self._heard.wait()
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
            while said := await reader.read(_CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._passing.wait()
                await self._heard.wait()
                writer.write(said)
                await writer.drain()
        # The end of a connection is not heard either.
        await self._heard.wait()
        writer.close()

    def cut(self, _: float) -> None:
        """Reset all connections."""
        if self._heard.is_set():
            for writer in self._open:
                writer.transport.abort()

    def slow(self, seconds: float) -> None:
        """Hold every piece back for so long."""
        self._delay = seconds

    def half_open(self, _: float) -> None:
        """Pass nothing on any more."""
        self._passing.clear()

    def heal(self, _: float) -> None:
        """Be a good network again."""
        self._delay = 0.0
        self._passing.set()

    def silence(self, _: float) -> None:
        """Pass nothing on, neither bytes nor the end of a connection."""
        self._heard.clear()

    def speak(self, _: float) -> None:
        """End the silence."""
        self._heard.set()

    def point(self, server: float) -> None:
        """Lead new connections to another server."""
        self._server = int(server)


async def serve(effects: Path, ports: Sequence[int]) -> None:
    """Serve until the input ends."""
    ledger, networks = Ledger(effects), {name: Network(ports) for name in NETWORKS}
    callbacks = [ledger.serve, *(network.connect for network in networks.values())]
    servers = [await asyncio.start_server(each, "127.0.0.1", 0) for each in callbacks]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    reader = StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, word, number = line.decode().split()
        orders(networks[name])[word](float(number))


def orders(network: Network) -> dict[str, Callable[[float], None]]:
    """Return what a network can be asked to do, by word."""
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
