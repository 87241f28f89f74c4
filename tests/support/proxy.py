"""A proxy between a client and the server that drops chosen messages."""

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
    """Passes everything, until a client sends the configured text.

    `lose_answer`: the next COMMIT of that connection reaches the server, its response is dropped.
    `lose_request`: the request with the text is dropped as well.
    """

    sockets: Path
    lose_answer: bytes | None = None
    lose_request: bytes | None = None
    lost: int = 0
    _passing: set[asyncio.Task[None]] = field(default_factory=set)

    async def connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Connect a client to the server, until one of them closes its connection."""
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
        while data := await reader.read(_CHUNK):
            if self.lose_request is not None and self.lose_request in data:
                self.lose_request, self.lost = None, self.lost + 1
                return
            if self.lose_answer is not None and self.lose_answer in data:
                self.lose_answer, in_doubt = None, True
            if in_doubt and b"COMMIT" in data:
                back.cancel()
                await asyncio.wait([back])
                ours.write(data)
                await theirs.read(_CHUNK)
                self.lost += 1
                return
            ours.write(data)

    async def _pass_back(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            while answer := await reader.read(_CHUNK):
                writer.write(answer)


@asynccontextmanager
async def network(url: str) -> AsyncIterator[tuple[Network, str]]:
    """Open a proxy to the server of a URL; yield it and the URL through it."""
    parts = urlsplit(url)
    (sockets,) = parse_qs(parts.query)["host"]
    between = Network(Path(sockets))
    server = await asyncio.start_server(between.connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield between, f"postgresql://postgres@127.0.0.1:{port}{parts.path}?gssencmode=disable"
    finally:
        server.close()
