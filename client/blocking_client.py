"""The client for synchronous programs."""

from collections.abc import Iterator
from time import sleep
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
)

T = TypeVar("T")


class Client:
    """Sends calls to a server. Use it as a context manager, or close it."""

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
        try:
            self._http = httpx.Client(timeout=timeout)
        except (httpx.InvalidURL, ValueError, ImportError):
            raise invalid_proxy() from None

    def send(self, call: ApiCall[T]) -> T:
        """Send a call and return its response."""
        return self._carry_out(exchange(self._address, call, self._timeout, self._tries))

    def pages(self, call: ListCall[T], size: int = LARGEST_PAGE) -> Iterator[list[T]]:
        """Yield the pages of a list; the next one is requested when it is needed."""
        after: str | None = None
        while True:
            page = self.send(call.page(size, after))
            yield cast("list[T]", page[call.name])
            after = cast("str | None", page["next"])
            if after is None:
                return

    def each(self, call: ListCall[T]) -> Iterator[T]:
        """Yield the items of a list, page by page."""
        for page in self.pages(call):
            yield from page

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _carry_out(self, steps: Exchange[T]) -> T:
        response: httpx.Response | None = None
        while True:
            try:
                step = steps.send(response)
            except StopIteration as end:
                return cast("T", end.value)
            if isinstance(step, Wait):
                sleep(step.seconds)
                response = None
            else:
                response = self._respond(step)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except httpx.HTTPError as error:
            raise no_response(self._address.url, error) from error
