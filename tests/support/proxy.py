"""A network between a client and the server that loses what it is told to lose."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_CHUNK = 1 << 16


@dataclass
class Network:
    """Passes everything on, until somebody says the words that it was told to wait for.

    `lose_answer`: the next COMMIT of that connection reaches the server, its answer gets lost.
    `lose_request`: not even the words reach it.
    """

    sockets: Path
    lose_answer: bytes | None = None
    lose_request: bytes | None = None
    lost: int = 0
    _passing: set[asyncio.Task[None]] = field(default_factory=set)

    async def connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Join a client to the server, until one of them closes its connection."""
        theirs, ours = await asyncio.open_unix_connection(self.sockets / ".s.PGSQL.5432")
        back = asyncio.create_task(self._pass_back(theirs, writer))
        self._passing.add(back)
        try:
            with suppress(ConnectionError):
                await self._pass_on(reader, theirs, ours, back)
        finally:
            back.cancel()
            writer.transport.abort()
            ours.transport.abort()

    async def _pass_on(
        self,
        reader: StreamReader,
        theirs: StreamReader,
        ours: StreamWriter,
        back: asyncio.Task[None],
    ) -> None:
        in_doubt = False
        while said := await reader.read(_CHUNK):
            if self.lose_request is not None and self.lose_request in said:
                self.lose_request, self.lost = None, self.lost + 1
                return
            if self.lose_answer is not None and self.lose_answer in said:
                self.lose_answer, in_doubt = None, True
            if in_doubt and b"COMMIT" in said:
                back.cancel()
                await asyncio.wait([back])
                ours.write(said)
                await theirs.read(_CHUNK)
                self.lost += 1
                return
            ours.write(said)

    async def _pass_back(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            while answer := await reader.read(_CHUNK):
                writer.write(answer)


@asynccontextmanager
async def network(url: str) -> AsyncIterator[tuple[Network, str]]:
    """Open a network to the server of a URL; yield it and the URL of the database through it."""
    parts = urlsplit(url)
    (sockets,) = parse_qs(parts.query)["host"]
    between = Network(Path(sockets))
    server = await asyncio.start_server(between.connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield between, f"postgresql://postgres@127.0.0.1:{port}{parts.path}?gssencmode=disable"
    finally:
        server.close()
