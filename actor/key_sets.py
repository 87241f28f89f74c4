"""The keys that a receiver trusts: a fixed set, or one that is fetched from an address.

A fetched set is cached. An unknown key id triggers another fetch, because that is how a new key
becomes visible, but at most once per `pause`, whatever ids callers invent. If the address does not
answer, the cached keys stay trusted for a limited time, so that a revoked key does expire.

Not PyJWT's `PyJWKClient`: it fetches again for every unknown key id, follows redirects and has no
limit on how long a key stays trusted without the issuer.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Final, Protocol, final

from tenantcron.actor.fetching import check_address, fetch_json, shown_address
from tenantcron.actor.keys import PublicKey, from_jwk
from tenantcron.core.errors import TenantcronError

LIFETIME: Final = timedelta(minutes=5)
PAUSE: Final = timedelta(seconds=30)
TRUST: Final = timedelta(hours=1)
PATIENCE: Final = timedelta(seconds=5)
MOST_KEYS: Final = 100


class KeysUnavailableError(TenantcronError):
    """The keys could not be fetched, so no token can be verified now; retry later."""


class KeySetFormatError(TenantcronError):
    """The document is not a JSON Web Key Set."""


class KeySet(Protocol):
    """Public keys by key id."""

    def find(self, kid: str) -> PublicKey | None:
        """Return a key; None if no trusted key has that id."""


@final
class FixedKeys:
    """Keys that do not change: `tenantcron keys jwks` prints the document."""

    __slots__ = ("_by_kid",)

    def __init__(self, document: object) -> None:
        self._by_kid = read_key_set(document)

    def find(self, kid: str) -> PublicKey | None:
        """Return a key."""
        return self._by_kid.get(kid)


@final
class FetchedKeys:
    """Keys that are fetched from an address; it is thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        lifetime: timedelta = LIFETIME,
        pause: timedelta = PAUSE,
        trust: timedelta = TRUST,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        check_address(url)
        self._url = url
        self._lifetime, self._pause, self._trust = (
            duration.total_seconds() for duration in (lifetime, pause, trust)
        )
        self._clock = clock
        self._lock = Lock()
        self._by_kid: Mapping[str, PublicKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def find(self, kid: str) -> PublicKey | None:
        """Return a key; fetch the set if it is stale or lacks that id."""
        if not self._is_current(kid):
            # One thread fetches; the others then find the key in the cache.
            with self._lock:
                if not self._is_current(kid) and self._may_try():
                    self._fetch()
        return self._trusted().get(kid)

    def _is_current(self, kid: str) -> bool:
        return kid in self._by_kid and self._age() < self._lifetime

    def _may_try(self) -> bool:
        return self._tried_at is None or self._clock() - self._tried_at >= self._pause

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _fetch(self) -> None:
        self._tried_at = self._clock()
        try:
            self._by_kid = read_key_set(fetch_json(self._url, PATIENCE))
        except (OSError, ValueError, TenantcronError):
            return  # `_trusted` decides how long the cached keys still count
        self._fetched_at = self._tried_at

    def _trusted(self) -> Mapping[str, PublicKey]:
        if self._age() >= self._trust:
            raise KeysUnavailableError(
                f"no keys could be fetched from {shown_address(self._url)}: check that it returns "
                "a key set"
            )
        return self._by_kid


def read_key_set(document: object) -> dict[str, PublicKey]:
    """Parse a JSON Web Key Set; unsupported keys are skipped."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise KeySetFormatError(f"expected a key set: an object with `keys`, at most {MOST_KEYS}")
    read = (from_jwk(key) for key in keys if isinstance(key, dict))
    return {key.kid: key for key in read if key is not None}
