"""Connections of HTTP targets, only to checked addresses.

The httpx client requests a connection to a host from its pool, and the pool from the backend below.
The backend resolves the name once, checks every address, and connects to one of these addresses.
Everything above it uses the name: the `Host` header, the server name in the TLS handshake, the
check of the certificate, and the reuse of connections.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Final

import certifi
import httpcore
import httpx

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.targets.http.checking import checked_addresses
from tenantcron.targets.http.interim import BoundedStream
from tenantcron.targets.http.resolving import Resolve, ResolvingError

# More than a replica runs at once, so a call never waits for a connection.
_CONNECTIONS: Final = 1024
# The pool scans all of them for every request.
_IDLE_CONNECTIONS: Final = 20
# Shorter than the idle timeout of services: a request on a connection that the service is closing
# fails the attempt.
_IDLE_SECONDS: Final = 2.0


def new_client(egress: Egress, resolve: Resolve, context: ssl.SSLContext) -> httpx.AsyncClient:
    """Return a client that many calls share; it ignores proxies, netrc files and cookies."""
    pool = httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=_CONNECTIONS,
        max_keepalive_connections=_IDLE_CONNECTIONS,
        keepalive_expiry=_IDLE_SECONDS,
        network_backend=CheckedBackend(egress, resolve),
    )
    # It logs complete URLs, and queries may contain secrets.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.AsyncClient(
        transport=_Transport(pool),
        trust_env=False,
        follow_redirects=False,
        headers={"User-Agent": "tenantcron"},
        # Tenants share the client: a cookie for one tenant must not be sent by another.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """A failed exchange with a service, as text before and after its origin."""

    text: str
    cause: str = ""
    is_transient: bool = True


def connection_failure(error: Exception) -> ConnectionFailure | None:
    """Describe an error of the connection; None if it is another error."""
    match error:
        case httpcore.ConnectError() | httpcore.ConnectTimeout():
            return ConnectionFailure("no connection to", f": {_cause(error)}")
        case httpcore.TimeoutException():
            return ConnectionFailure("no answer in time from")
        case httpcore.LocalProtocolError():
            text = "the request cannot be sent to"
            return ConnectionFailure(text, f": {_cause(error)}", is_transient=False)
        case httpcore.NetworkError() | httpcore.ProtocolError():
            return ConnectionFailure("lost the connection to", f": {_cause(error)}")
    return None


def _cause(error: BaseException) -> str:
    """Return the message of the system, which is at the end of the chain of causes."""
    while isinstance(before := error.__cause__ or error.__context__, Exception):
        error = before
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError) or not error.errno:
        return str(error) or type(error).__name__
    return os.strerror(error.errno)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves a name, checks its addresses and connects, each once."""

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an address of a host, if all its addresses may be called."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked_addresses(host, self._egress, self._resolve)
        except TimeoutError:
            raise ResolvingError(f"{host} was not resolved in time") from None
        *others, last = addresses
        for address in others:
            try:
                stream = await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return BoundedStream(stream)
        return BoundedStream(
            await self._network.connect_tcp(last, port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)


class _Transport(httpx.AsyncBaseTransport):
    """The pool behind the client; the transport of httpx does not accept a backend."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the head of the response."""
        url = request.url
        response = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.content,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Stream(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


def trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the public authorities, and those in a file."""
    context = ssl.create_default_context(cafile=certifi.where())
    if ca_file is None:
        return context
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{ca_file}: no certificates can be read from it: {error}") from error
    return context
