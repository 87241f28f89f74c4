"""The client for asyncio."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from types import TracebackType
from typing import TypeVar, cast

import httpx

from tenantcron.client.addresses import server_address
from tenantcron.client.calls import LARGEST_PAGE, ApiCall, ListCall
from tenantcron.client.errors import no_response
from tenantcron.client.exchange import (
    TIMEOUT,
    TRIES,
    Exchange,
    Wait,
    exchange,
    invalid_proxy,
    time_of,
)

T = TypeVar("T")


class AsyncClient:
    """Sends calls to a server. Use it as an async context manager, or close it."""

    def __init__(
        self,
        server: str,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT,
        tries: int = TRIES,
    ) -> None:
        self._address = server_address(server, token)
        self._timeout, self._tries = timeout, tries
        self._server_time: datetime | None = None
        try:
            self._http = httpx.AsyncClient(timeout=timeout)
        except (httpx.InvalidURL, ValueError, ImportError):
            raise invalid_proxy() from None

    @property
    def server(self) -> str:
        """The URL of the server."""
        return self._address.url

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self._address.has_token

    @property
    def server_time(self) -> datetime | None:
        """The `Date` of the last response; None before the first one."""
        return self._server_time

    async def send(self, call: ApiCall[T]) -> T:
        """Send a call and return its response."""
        return await self._carry_out(exchange(self._address, call, self._timeout, self._tries))

    async def pages(self, call: ListCall[T], size: int = LARGEST_PAGE) -> AsyncIterator[list[T]]:
        """Yield the pages of a list; the next one is requested when it is needed."""
        after: str | None = None
        while True:
            page = await self.send(call.page(size, after))
            yield cast("list[T]", page[call.name])
            after = cast("str | None", page["next"])
            if after is None:
                return

    async def each(self, call: ListCall[T]) -> AsyncIterator[T]:
        """Yield the items of a list, page by page."""
        async for page in self.pages(call):
            for item in page:
                yield item

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _carry_out(self, steps: Exchange[T]) -> T:
        response: httpx.Response | None = None
        while True:
            try:
                step = steps.send(response)
            except StopIteration as end:
                return cast("T", end.value)
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                response = None
            else:
                response = await self._respond(step)

    async def _respond(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._http.send(request)
        except httpx.HTTPError as error:
            raise no_response(self._address.url, error) from error
        self._server_time = time_of(response) or self._server_time
        return response
