"""A proxy between clients and servers that can go silent, and switch to another server.

A silent proxy keeps all connections open and accepts new ones, and passes nothing: like a server
whose machine stalls, or a proxy whose backend is gone. Clients see no RST and no FIN.
"""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server behind the proxy: a socket, or a port of this machine."""

    place: Path | int

    async def connect(self) -> tuple[StreamReader, StreamWriter]:
        """Open a connection to it."""
        if isinstance(self.place, int):
            return await asyncio.open_connection("127.0.0.1", self.place)
        return await asyncio.open_unix_connection(self.place)


@dataclass
class Gate:
    """The proxy; its methods may be called from any thread."""

    upstream: Upstream
    database: str
    port: int = 0
    # Number of connections opened through it.
    opened: int = 0
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The URL of the database through the proxy."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self.database}?gssencmode=disable"

    def fall_silent(self) -> None:
        """Pass nothing in either direction from now on."""
        self._call(self._open.clear)

    def speak(self) -> None:
        """Pass data again, starting with what was held back."""
        self._call(self._open.set)

    def lead_to(self, upstream: Upstream) -> None:
        """Route new connections to another server, and end the old ones."""

        def switch() -> None:
            self.upstream = upstream
            for writer in self._writers:
                writer.transport.abort()

        self._call(switch)

    def _call(self, action: Callable[[], object]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.opened += 1
        self._writers.add(writer)
        try:
            await self._open.wait()
            with suppress(OSError):
                await self._join(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _join(self, reader: StreamReader, writer: StreamWriter) -> None:
        theirs, ours = await self.upstream.connect()
        self._writers.add(ours)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass_on(reader, ours))
                tasks.create_task(self._pass_on(theirs, writer))
        finally:
            self._writers.discard(ours)
            ours.transport.abort()

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(data)
        writer.transport.abort()

    async def serve(self, started: threading.Event) -> None:
        """Serve until it is closed."""
        self._loop = asyncio.get_running_loop()
        self._open.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._ending.wait()
        # If a server is closed between accepting a connection and its first step, Python before
        # 3.12 drops the connection's socket without closing it. So it only stops listening.
        for listening in server.sockets:
            self._loop.remove_reader(listening)
        await self._end_connections()
        server.close()

    async def _end_connections(self) -> None:
        """Close all sockets, and wait until the tasks that served them have ended.

        asyncio reports a cancelled task of a stream server as an error, so none is cancelled.
        """
        self._open.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in tuple(self._writers):
                writer.transport.abort()
            await asyncio.wait(others, timeout=0.05)
        # The loop closes aborted sockets in its next round.
        await asyncio.sleep(0)

    def close(self) -> None:
        """End all connections."""
        self._loop.call_soon_threadsafe(self._ending.set)


@contextmanager
def gate(url: str) -> Iterator[Gate]:
    """Open a proxy in front of the server of a URL with a socket or a port."""
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("host")
    place = Path(named[0]) / ".s.PGSQL.5432" if named else (parts.port or 5432)
    between = Gate(Upstream(place), parts.path.removeprefix("/"))
    started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(between.serve(started)), daemon=True)
    thread.start()
    started.wait()
    try:
        yield between
    finally:
        between.close()
        thread.join()
