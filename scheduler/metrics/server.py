"""The pages of a scheduler for machines: `/metrics`, `/healthz` and `/readyz`, by plain HTTP.

One short answer to a GET, and the connection is closed: all that Prometheus and probes need, in the
scheduler's own event loop and without a web framework. It has no secrets to tell and no callers to
know; who may reach it is up to the address that it is bound to.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, NamedTuple

import structlog

from tenantcron.core.errors import UsageError

log = structlog.get_logger(__name__)

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_HEAD: Final = 16 * 1024
_PATIENCE: Final = 10.0


class Page(NamedTuple):
    """What is answered."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


# Why something is not so; None if it is.
Reason = Callable[[], str | None]


def pages(scrape: Callable[[], Awaitable[bytes]], unhealthy: Reason, unready: Reason) -> Pages:
    """Return the pages of a scheduler."""

    async def metrics() -> Page:
        return Page(await scrape(), content_type=METRICS_TYPE)

    async def healthz() -> Page:
        return _probe("healthy", unhealthy())

    async def readyz() -> Page:
        return _probe("ready", unready())

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def _probe(word: str, reason: str | None) -> Page:
    if reason is None:
        return Page(f"{word}\n".encode())
    return Page(f"not {word}: {reason}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


@asynccontextmanager
async def served(pages: Pages, host: str, port: int) -> AsyncIterator[None]:
    """Serve the pages for as long as it lasts; a UsageError if that cannot be done there."""

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            # A caller that went away, or never said what it wants, is nothing to speak of.
            with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await _answer(reader, pages))
                    await writer.drain()
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=_LONGEST_HEAD)
    except OSError as error:
        raise UsageError(f"metrics cannot be served at {host}:{port}: {error.strerror}") from error
    log.info("metrics_served", host=host, port=server.sockets[0].getsockname()[1])
    try:
        yield
    finally:
        server.close()


async def _answer(reader: StreamReader, pages: Pages) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _response(Page(b"", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if path not in pages:
        return _response(Page(b"there is " + " ".join(pages).encode(), HTTPStatus.NOT_FOUND))
    if method not in ("GET", "HEAD"):
        return _response(Page(b"only GET is answered", HTTPStatus.METHOD_NOT_ALLOWED))
    return _response(await pages[path](), with_body=method == "GET")


def _response(page: Page, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")
