"""A process with what stands around the schedulers: the counting service, and a bad network.

**The service** does its work once for each idempotency key, as targets are asked to, and appends a
line for every request (`R`) and every effect (`E`) to a file. Its paths are its moods: `/quick`,
`/late` (answers after a second), `/flaky` (503 to every first request of a key), `/mute` (does its
work and does not answer the first request of a key).

**The network** passes bytes between schedulers and the database's socket. It can be cut (all
connections are reset), slow (every piece is held back for a while), or half-open (nothing is passed
on in either direction, and nobody is told).

Orders come by the standard input, a word and a number a line; the ports go to the standard output.
"""

import asyncio
import os
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
        os.write(self._file, f"{what} {key} {attempt}\n".encode())


class Network:
    """The way to the database."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._open: set[StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._delay = 0.0

    async def connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Join a client to the server."""
        try:
            theirs, ours = await asyncio.open_unix_connection(self._socket)
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
                writer.write(said)
                await writer.drain()
        writer.close()

    def cut(self, _: float) -> None:
        """Reset all connections."""
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


async def serve(socket: Path, effects: Path) -> None:
    """Serve until the input ends."""
    ledger, network = Ledger(effects), Network(socket)
    counting = await asyncio.start_server(ledger.serve, "127.0.0.1", 0)
    passing = await asyncio.start_server(network.connect, "127.0.0.1", 0)
    ports = [server.sockets[0].getsockname()[1] for server in (counting, passing)]
    print(*ports, flush=True)
    orders: dict[str, Callable[[float], None]] = {
        "cut": network.cut,
        "slow": network.slow,
        "half_open": network.half_open,
        "heal": network.heal,
    }
    reader = StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, number = line.decode().split()
        orders[word](float(number))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
