"""The keys of an OIDC issuer, fetched on demand and cached.

Not PyJWT's `PyJWKClient`: it blocks the event loop, fetches again for every unknown key id and
follows redirects. Its `PyJWKSet` parses the document.
"""

import asyncio
import json
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import httpx
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tenantcron.actor.grants import InvalidCredentialsError
from tenantcron.service.problems import unavailable

log = structlog.get_logger()

# Seconds until the keys are fetched again, which drops withdrawn keys.
_FRESH_FOR: Final = 600.0
_TRUSTED_FOR: Final = 3600.0
# Limits the requests to the issuer that tokens with invented key ids can cause.
_AT_MOST_EVERY: Final = 10.0
_PATIENCE: Final = 5.0
_LONGEST: Final = 1_000_000
_SHORTEST_RSA: Final = 2048


@dataclass(slots=True)
class IssuerKeySet:
    """The cached keys of an issuer. Each process has its own cache."""

    url: str = field(repr=False)
    _keys: dict[str, jwt.PyJWK] = field(default_factory=dict)
    _fetched_at: float = float("-inf")
    _tried_at: float = float("-inf")
    _fetching: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """Return a key by its id; without an id, the only key."""
        found = self._find(key_id)
        if found is not None and self._age < _FRESH_FOR:
            return found
        async with self._fetching:
            await self._fetch()
        # Cached keys stay valid for a while, because an unreachable issuer has withdrawn nothing.
        # The time is limited, so that a withdrawn key does not stay valid forever.
        if self._age > _TRUSTED_FOR:
            raise unavailable("the token issuer does not respond: retry")
        found = self._find(key_id)
        if found is None:
            raise InvalidCredentialsError("the issuer has no such key")
        return found

    @property
    def _age(self) -> float:
        return monotonic() - self._fetched_at

    def _find(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def _fetch(self) -> None:
        if monotonic() - self._tried_at < _AT_MOST_EVERY:
            return
        self._tried_at = monotonic()
        try:
            self._keys = _readable(await _get(self.url))
        except (httpx.HTTPError, TimeoutError, ValueError, jwt.PyJWTError) as error:
            log.warning("issuer_away", url=_without_query(self.url), error=_message(error))
            return
        self._fetched_at = monotonic()


def _without_query(url: str) -> str:
    """Remove the query of a URL, which may contain a secret."""
    return url.partition("?")[0]


def _message(error: Exception) -> str:
    """Return the message of an error; the message of httpx for a status quotes the URL."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP status {error.response.status_code}"
    return f"{type(error).__name__}: {error}"


async def _get(url: str) -> bytes:
    content = b""
    async with (
        # A total timeout: the request that presented the token waits for the keys.
        asyncio.timeout(_PATIENCE),
        httpx.AsyncClient(timeout=_PATIENCE, follow_redirects=False, trust_env=False) as client,
        client.stream("GET", url) as answer,
    ):
        answer.raise_for_status()
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > _LONGEST:
                raise ValueError("the key set is too long")
    return content


def _readable(content: bytes) -> dict[str, jwt.PyJWK]:
    """Return the usable keys of a JWK set, which may contain others."""
    match json.loads(content):
        case {"keys": [*keys]}:
            signing = [key for key in keys if not _is_for_encryption(key)]
            found = jwt.PyJWKSet(signing).keys if signing else []
            return {key.key_id or "": key for key in found if _is_strong(key)}
    raise ValueError("it is not a key set")


def _is_for_encryption(key: object) -> bool:
    return isinstance(key, dict) and key.get("use") == "enc"


def _is_strong(key: jwt.PyJWK) -> bool:
    """Whether a key is a public key, and an RSA key is long enough."""
    if isinstance(key.key, RSAPublicKey):
        return key.key.key_size >= _SHORTEST_RSA
    return key.key_type != "oct"
