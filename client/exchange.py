"""How a call becomes a response, without input and output.

An exchange is a generator. It yields what to do next, a request to send or a number of seconds to
wait, and receives the response of each request. `Client` and `AsyncClient` only carry these steps
out, so both behave the same:

- A server that is busy (429 or 503 with `Retry-After`) is asked again, up to `TRIES` times.
- A write carries an `Idempotency-Key`, the same for each try. If the server has already executed
  it, it returns the stored response, so nothing happens twice.
- Any other request that fails is an error: the caller decides whether to repeat it.
"""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar, cast
from uuid import uuid4

import httpx

from tenantcron.client.addresses import ServerAddress
from tenantcron.client.calls import ApiCall
from tenantcron.client.errors import ProblemError, another_version, not_understood
from tenantcron.core.errors import UsageError

T = TypeVar("T")

TIMEOUT: Final = 60.0
TRIES: Final = 5
_LONGEST_WAIT: Final = 61
_BUSY: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Wait:
    """A step of an exchange: wait before the next request."""

    seconds: float


Step = httpx.Request | Wait
Exchange = Generator[Step, httpx.Response | None, T]


def exchange(
    address: ServerAddress, call: ApiCall[T], timeout: float = TIMEOUT, tries: int = TRIES
) -> Exchange[T]:
    """Yield the steps of a call and return its response.

    Each phase of a try may take `timeout` seconds: to connect, to send, to wait for more.
    """
    request = _request(address, call, timeout)
    for _ in range(tries - 1):
        response = yield from _sent(request)
        wait = response.headers.get("retry-after", "")
        if response.status_code not in _BUSY or not wait.isdecimal():
            return parsed(address.url, call, response)
        yield Wait(min(int(wait), _LONGEST_WAIT))
    return parsed(address.url, call, (yield from _sent(request)))


def _sent(request: httpx.Request) -> Generator[Step, httpx.Response | None, httpx.Response]:
    response = yield request
    if response is None:
        raise RuntimeError("a request was not answered with a response")
    return response


def _request(address: ServerAddress, call: ApiCall[T], timeout: float) -> httpx.Request:
    headers = {**address.headers(), **call.headers}
    if call.is_write:
        headers.setdefault("Idempotency-Key", str(uuid4()))
    else:
        # Callers read what they have just changed, so not from a read replica that lags.
        headers.setdefault("Cache-Control", "no-cache")
    return httpx.Request(
        call.method,
        address.url + call.path,
        params=list(call.query),
        headers=headers,
        json=call.body,
        content=call.content,
        extensions={"timeout": httpx.Timeout(timeout).as_dict()},
    )


def parsed(server: str, call: ApiCall[T], response: httpx.Response) -> T:
    """Return the response of a call; raise its problem."""
    try:
        body = response.json()
    except ValueError as error:
        raise not_understood(server, response.status_code) from error
    required: frozenset[str] = getattr(call.shape, "__required_keys__", frozenset())
    # A refused manifest is a problem as well as a result.
    if isinstance(body, dict) and (response.is_success or required) and required <= body.keys():
        return cast("T", body)
    match body:
        case {"code": str(), "detail": str()} if not response.is_success:
            correlation_id = response.headers.get("x-correlation-id", "")
            raise ProblemError(server, response.status_code, body, correlation_id)
    raise another_version(server)


def time_of(response: httpx.Response) -> datetime | None:
    """Return the time of the server's clock, from the `Date` header."""
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return None


def invalid_proxy() -> UsageError:
    """Return the error of a proxy setting that httpx rejects.

    The message of httpx quotes the URL, which may contain a password.
    """
    return UsageError("the proxy setting is not valid: check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY")
