"""Connections to checked addresses only.

The client of httpx asks its pool for a connection to a host, and the pool asks the backend below.
There the name is looked up, once, every address is checked, and the connection is made to one of
those very addresses. All that is above goes by the name: the `Host` header, the name in the TLS
handshake, the check of the certificate, and which connections may be used again.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Final

import certifi
import httpcore
import httpx

from tenantcron.core.egress import Egress, EgressRefusal, is_address
from tenantcron.core.errors import UsageError
from tenantcron.targets.interim import BoundedStream
from tenantcron.targets.resolving import Resolve, ResolvingError

# A little more than a replica runs at a time: a call never waits for a connection of others.
_CONNECTIONS: Final = 1024
# The pool looks at each of them for every request.
_IDLE_CONNECTIONS: Final = 20
# Shorter than services wait before they close: a request on a connection that is being closed is
# an attempt lost.
_IDLE_SECONDS: Final = 2.0


class ForbiddenAddressError(Exception):
    """A name stands for an address that may not be called."""

    def __init__(self, host: str, refusal: EgressRefusal) -> None:
        super().__init__(f"{host} may not be called: {refusal.message}; {refusal.hint}")


def new_client(egress: Egress, resolve: Resolve, ca_file: Path | None) -> httpx.AsyncClient:
    """Return the client that all calls share; it heeds no proxies, netrc files or cookies."""
    pool = httpcore.AsyncConnectionPool(
        ssl_context=_trusted(ca_file),
        max_connections=_CONNECTIONS,
        max_keepalive_connections=_IDLE_CONNECTIONS,
        keepalive_expiry=_IDLE_SECONDS,
        network_backend=CheckedBackend(egress, resolve),
    )
    # It writes whole URLs, and queries hold secrets.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.AsyncClient(
        transport=_Transport(pool),
        trust_env=False,
        follow_redirects=False,
        headers={"User-Agent": "tenantcron"},
        # Tenants share the client: what a service gives to one must not come back from another.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


@dataclass(frozen=True, slots=True)
class Broken:
    """What went wrong between here and a service, in words around its name."""

    said: str
    why: str = ""
    may_pass: bool = True


def broken(error: Exception) -> Broken | None:
    """Return what an error of the connection means; None if it is none."""
    match error:
        case httpcore.ConnectError() | httpcore.ConnectTimeout():
            return Broken("no connection to", f": {_cause(error)}")
        case httpcore.TimeoutException():
            return Broken("no answer in time from")
        case httpcore.LocalProtocolError():
            return Broken("no such request can be sent to", f": {_cause(error)}", may_pass=False)
        case httpcore.NetworkError() | httpcore.ProtocolError():
            return Broken("the connection broke off to", f": {_cause(error)}")
    return None


def _cause(error: BaseException) -> str:
    """Return what the system said, which stands at the end of the chain of causes."""
    while isinstance(before := error.__cause__ or error.__context__, Exception):
        error = before
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError) or not error.errno:
        return str(error) or type(error).__name__
    return os.strerror(error.errno)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Looks up, checks and connects, in this order and each once."""

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
        """Connect to an address of a host, if all that it has may be called."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked(host)
        except TimeoutError:
            raise ResolvingError(f"{host} was not looked up in time") from None
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

    async def _checked(self, host: str) -> Sequence[str]:
        """One address that is forbidden forbids them all: which one is used is chance."""
        literal = ":" in host or is_address(host)
        addresses = [host] if literal else await self._resolve(host)
        if not addresses:
            raise ResolvingError(f"{host} cannot be looked up: it has no address")
        for address in addresses:
            refusal = self._egress.forbids(address)
            if refusal is not None:
                raise ForbiddenAddressError(host, refusal)
        return addresses


class _Transport(httpx.AsyncBaseTransport):
    """The pool behind the client; httpx has one of its own, but no way to give it a backend."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the head of the answer."""
        url = request.url
        answer = await self._pool.handle_async_request(
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
            answer.status,
            headers=answer.headers,
            stream=_Stream(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certifi.where())
    if ca_file is None:
        return context
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{ca_file}: no certificates can be read from it: {error}") from error
    return context
