"""Tokens of OAuth 2.0 token endpoints, by the client credentials grant (RFC 6749, 4.4).

- **Cache.** A replica keeps a token for each tenant, client and secret until shortly before it
  expires. Tenants never share a token, and a replaced secret never uses the token of the old one.
- **Single flight.** Attempts that need the same token at the same time share one request. It
  continues if an attempt stops waiting, and ends after `LONGEST_FETCH`.
- **Rejected tokens.** If a target answers 401 to a token of the cache, the token is dropped and the
  request is sent once more with a new one. A 401 to a new token ends the attempt as usual.
- **Failures** of the token endpoint fail the attempt, and the attempt is retried. Forbidden hosts
  and addresses are not retried, as for the target itself.

The secret is sent in an `Authorization: Basic` header, which every token endpoint must accept.
Tokens are in no log, error or stored response.
"""

import asyncio
import json
import re
from asyncio import Task
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import ClassVar, Final, NamedTuple, Protocol
from urllib.parse import quote_plus, urlencode

from tenantcron.core.auth import OAuth2Auth
from tenantcron.core.egress import Egress
from tenantcron.core.names import TenantId
from tenantcron.targets.http.credentials import RequestCredentials, bearer
from tenantcron.targets.responses import FullResponse, RetryCall, ServiceResponse

LONGEST_FETCH: Final = timedelta(seconds=30)
# The lifetime of a token whose endpoint reports none.
DEFAULT_LIFETIME: Final = timedelta(minutes=5)
# A token is replaced this long before it expires, or after nine tenths of a short lifetime.
MARGIN: Final = timedelta(minutes=1)
MOST_TOKENS: Final = 1000

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR_CODE: Final = re.compile("[a-z_]{1,40}")


@dataclass(slots=True)
class TokenEndpointResponse(FullResponse):
    """The response of a token endpoint."""

    # Tokens with many claims exceed the limit of other responses.
    longest: ClassVar[int] = 64 * 1024


class PostForm(Protocol):
    """Posts a form to a URL, subject to the egress rules."""

    async def __call__(
        self,
        url: str,
        form: bytes,
        credentials: RequestCredentials,
        answer: ServiceResponse,
        egress: Egress | None,
    ) -> None:
        """Send the request; `answer` receives any response."""


@dataclass(frozen=True, slots=True)
class OAuth2Client:
    """A client of a token endpoint, for one tenant."""

    tenant: TenantId
    auth: OAuth2Auth
    secret: bytes = field(repr=False)
    egress: Egress | None = None

    def key(self) -> "_Key":
        """Return the key of the cache, without the secret itself."""
        return _Key(self.tenant, self.auth, sha256(self.secret).digest())


class _Key(NamedTuple):
    tenant: TenantId
    auth: OAuth2Auth
    digest: bytes


@dataclass(frozen=True, slots=True)
class _CachedToken:
    text: str = field(repr=False)
    renew_at: float


class OAuth2Tokens:
    """The tokens of one replica."""

    def __init__(self, post: PostForm, now: Callable[[], float]) -> None:
        self._post = post
        self._now = now
        self._tokens: dict[_Key, _CachedToken] = {}
        self._under_way: dict[_Key, Task[_CachedToken]] = {}

    async def credentials(self, client: OAuth2Client) -> RequestCredentials:
        """Return the header with a token; raise a RetryCall or a FailCall if there is none."""
        key = client.key()
        token = self._tokens.get(key)
        if token is not None and self._now() < token.renew_at:
            text = token.text
            return bearer(text).droppable(lambda: self._drop(key, text))
        fetch = self._under_way.get(key) or self._start(key, client)
        return bearer((await asyncio.shield(fetch)).text)

    async def close(self) -> None:
        """Stop the requests to token endpoints."""
        fetches = list(self._under_way.values())
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    def _drop(self, key: _Key, text: str) -> None:
        """Drop a rejected token, unless another attempt has replaced it already."""
        token = self._tokens.get(key)
        if token is not None and token.text == text:
            del self._tokens[key]

    def _start(self, key: _Key, client: OAuth2Client) -> "Task[_CachedToken]":
        fetch = asyncio.create_task(self._fetch(client))
        self._under_way[key] = fetch
        fetch.add_done_callback(lambda ended: self._keep(key, ended))
        return fetch

    def _keep(self, key: _Key, fetch: "Task[_CachedToken]") -> None:
        del self._under_way[key]
        # Reading the exception also marks it as seen: the attempts that waited may have stopped.
        if fetch.cancelled() or fetch.exception() is not None:
            return
        self._tokens.pop(key, None)
        self._tokens[key] = fetch.result()
        while len(self._tokens) > MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]

    async def _fetch(self, client: OAuth2Client) -> _CachedToken:
        began, response = self._now(), TokenEndpointResponse()
        scope = {"scope": client.auth.scope} if client.auth.scope else {}
        form = urlencode({"grant_type": "client_credentials", **scope}).encode()
        try:
            async with asyncio.timeout(LONGEST_FETCH.total_seconds()):
                url, egress = client.auth.token_url, client.egress
                await self._post(url, form, _basic(client), response, egress)
        except RetryCall as error:
            raise RetryCall(f"no OAuth 2.0 token: {error.reason}") from None
        except TimeoutError:
            raise RetryCall("no OAuth 2.0 token: the token endpoint did not answer") from None
        return _read_token(response, began)


def _basic(client: OAuth2Client) -> RequestCredentials:
    # RFC 6749, 2.3.1: both parts are encoded like values of a form.
    name, secret = quote_plus(client.auth.client_id), quote_plus(client.secret)
    pair = b64encode(f"{name}:{secret}".encode()).decode()
    hidden = (client.secret.decode(errors="replace"), secret, pair)
    return RequestCredentials({"Authorization": f"Basic {pair}"}, hidden)


def _read_token(response: TokenEndpointResponse, began: float) -> _CachedToken:
    document = _document(response)
    if response.status != HTTPStatus.OK:
        code = document.get("error")
        shown = f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
        raise RetryCall(f"no OAuth 2.0 token: the token endpoint answered {response.status}{shown}")
    text, kind = document.get("access_token"), document.get("token_type", "bearer")
    if not isinstance(text, str) or _TOKEN.fullmatch(text) is None:
        raise RetryCall("no OAuth 2.0 token: the response has no valid access_token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise RetryCall("no OAuth 2.0 token: the token_type of the response is not Bearer")
    lifetime = _lifetime(document.get("expires_in"))
    return _CachedToken(text, began + lifetime - min(MARGIN.total_seconds(), lifetime / 10))


def _document(response: TokenEndpointResponse) -> dict[str, object]:
    try:
        document: object = json.loads(response.body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _lifetime(expires_in: object) -> float:
    """Return seconds; some endpoints send them as text."""
    match expires_in:
        case str(text) if text.isascii() and text.isdigit() and len(text) <= len("999999999"):
            return float(text)
        case bool():
            pass
        case int(seconds) | float(seconds) if 0 <= seconds < float("inf"):
            return float(seconds)
    return DEFAULT_LIFETIME.total_seconds()
