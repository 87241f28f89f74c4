"""Limits on what a service may send before its response.

HTTP allows any number of interim responses (`103 Early Hints`) before the response. The HTTP client
parses all received bytes without yielding, so an endless series of them would block the event loop
for every tenant. So the head of a response is inspected as it arrives: at most `MOST_INTERIM`
interim responses, and `LONGEST_HEAD` bytes up to the end of the headers. The caller limits the
body.
"""

import re
import ssl
from typing import Final

import httpcore

MOST_INTERIM: Final = 20
LONGEST_HEAD: Final = 64 * 1024

# Lines may end without a carriage return: the parser of the client accepts that, too.
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_INTERIM: Final = re.compile(rb"\s*HTTP/\d\.\d 1\d\d")


class Head:
    """The received bytes of a response, up to the end of its headers."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._seen = 0
        self._interim = 0
        self._has_ended = False

    def add(self, arrived: bytes) -> None:
        """Add received bytes; raise if there are too many."""
        if self._has_ended:
            return
        # The end of the head may begin in the bytes before.
        start = max(len(self._bytes) - 2, 0)
        self._seen += len(arrived)
        self._bytes += arrived
        while end := _END_OF_HEAD.search(self._bytes, start):
            if not _INTERIM.match(self._bytes):
                self._has_ended = True
                self._seen -= len(self._bytes) - end.end()
                self._bytes.clear()
                break
            self._count_interim()
            del self._bytes[: end.end()]
            start = 0
        if self._seen > LONGEST_HEAD:
            raise httpcore.RemoteProtocolError(
                f"more than {LONGEST_HEAD // 1024} KiB before the body of the response"
            )

    def _count_interim(self) -> None:
        self._interim += 1
        if self._interim > MOST_INTERIM:
            raise httpcore.RemoteProtocolError(f"more than {MOST_INTERIM} interim responses")


class BoundedStream(httpcore.AsyncNetworkStream):
    """A connection that fails if a service sends too much before its response."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = Head()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read the bytes that have arrived."""
        arrived = await self._stream.read(max_bytes, timeout)
        self._head.add(arrived)
        return arrived

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write a part of a request; the next bytes to read are the head of its response."""
        self._head = Head()
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Switch to TLS."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        """Return information about the connection."""
        return self._stream.get_extra_info(info)
