"""The monitoring endpoints of a scheduler: `/metrics`, `/healthz` and `/readyz`, over plain HTTP.

The server of `prometheus_client` collects in threads, and uvicorn is part of the `api` extra. These
endpoints await database queries in the scheduler's event loop, so they use a minimal asyncio
server: one response to a GET, then the connection is closed. The endpoints expose no secrets and
need no authentication. The bind address decides who can reach them.
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


class MonitoringResponse(NamedTuple):
    """The response of an endpoint."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Awaitable[MonitoringResponse]]]


# Returns why a probe fails; None if it succeeds.
FailureReason = Callable[[], str | None]


def routes(
    scrape: Callable[[], Awaitable[bytes]], unhealthy: FailureReason, unready: FailureReason
) -> Routes:
    """Return the endpoints of a scheduler by path."""

    async def metrics() -> MonitoringResponse:
        return MonitoringResponse(await scrape(), content_type=METRICS_TYPE)

    async def healthz() -> MonitoringResponse:
        return _probe("healthy", unhealthy())

    async def readyz() -> MonitoringResponse:
        return _probe("ready", unready())

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def _probe(word: str, reason: str | None) -> MonitoringResponse:
    if reason is None:
        return MonitoringResponse(f"{word}\n".encode())
    return MonitoringResponse(f"not {word}: {reason}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


@asynccontextmanager
async def serve(routes: Routes, host: str, port: int) -> AsyncIterator[None]:
    """Serve the endpoints until the end of the block; raise UsageError if it cannot listen."""

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            # Ignore a client that disconnects or sends no complete request.
            with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await _answer(reader, routes))
                    await writer.drain()
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=_LONGEST_HEAD)
    except OSError as error:
        raise UsageError(f"cannot serve metrics at {host}:{port}: {error.strerror}") from error
    log.info("metrics_served", host=host, port=server.sockets[0].getsockname()[1])
    try:
        yield
    finally:
        server.close()


async def _answer(reader: StreamReader, routes: Routes) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _encode(MonitoringResponse(b"", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if path not in routes:
        return _encode(
            MonitoringResponse(b"paths: " + " ".join(routes).encode(), HTTPStatus.NOT_FOUND)
        )
    if method not in ("GET", "HEAD"):
        return _encode(MonitoringResponse(b"only GET is answered", HTTPStatus.METHOD_NOT_ALLOWED))
    return _encode(await routes[path](), with_body=method == "GET")


def _encode(page: MonitoringResponse, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (page.body if with_body else b"")
