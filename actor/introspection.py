"""Introspection: a receiver asks the issuer whether a token's attempt is still running (RFC 7662).

    introspection = Introspection("https://cron.internal/v1/tokens:introspect")
    Verifier(keys=keys, issuer="tenantcron", audience=ours, introspection=introspection)

A signature alone is not enough: a token verifies until it expires, even if its execution has ended.
Each response is cached for a few seconds, so a token that is used many times costs one request. If
the issuer does not answer, the token is not accepted.
"""

from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple, final
from urllib.error import HTTPError

from tenantcron.actor.fetching import check_address, fetch_json
from tenantcron.actor.verification import Proof
from tenantcron.core.errors import TenantcronError

LIFETIME: Final = timedelta(seconds=5)
PATIENCE: Final = timedelta(seconds=5)
MAX_CACHED: Final = 10_000


class IntrospectionUnavailableError(TenantcronError):
    """The issuer does not answer, so it is unknown whether a token is active."""


class _CachedResult(NamedTuple):
    active: bool
    until: float


@final
class Introspection:
    """Queries the issuer at an address; it is thread-safe.

    By default the token itself is the credential. If `api_token` is given, it is used instead: an
    API token of tenantcron, which may be bound to a tenant.
    """

    def __init__(
        self,
        url: str,
        *,
        api_token: str | None = None,
        lifetime: timedelta = LIFETIME,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        check_address(url)
        self._url = url
        self._api_token = api_token
        self._lifetime = lifetime.total_seconds()
        self._clock = clock
        self._lock = Lock()
        self._cache: dict[str, _CachedResult] = {}

    def is_active(self, token: str, proof: Proof) -> bool:
        """Whether the attempt of a verified token is still running."""
        cached = self._cache.get(proof.token_id)
        if cached is not None and self._clock() < cached.until:
            return cached.active
        asked_at = self._clock()
        active = self._ask(token, proof)
        self._store(proof.token_id, _CachedResult(active, asked_at + self._lifetime))
        return active

    def _ask(self, token: str, proof: Proof) -> bool:
        headers = {"Authorization": f"Bearer {self._api_token or token}"}
        try:
            response = fetch_json(self._url, PATIENCE, {"token": token}, headers)
        except HTTPError as error:
            raise _unavailable(f"status {error.code}") from None
        except (OSError, ValueError) as error:
            raise _unavailable(type(error).__name__) from None
        match response:
            case {"active": False}:
                return False
            case {"active": True, "jti": proof.token_id}:
                return True
        raise _unavailable("the response is not about this token")

    def _store(self, token_id: str, result: _CachedResult) -> None:
        with self._lock:
            if len(self._cache) >= MAX_CACHED:
                now = self._clock()
                self._cache = {key: old for key, old in self._cache.items() if now < old.until}
            if len(self._cache) < MAX_CACHED:
                self._cache[token_id] = result


def _unavailable(why: str) -> IntrospectionUnavailableError:
    return IntrospectionUnavailableError(
        f"the issuer did not confirm that the token is active ({why}): check that it is reachable"
    )
