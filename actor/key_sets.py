"""The keys that a receiver trusts: a fixed set, or one that is fetched from an address.

A fetched set is kept for a while. A name that is not in it is a reason to fetch it again, because
that is how a new key shows; but only so often, whatever names callers invent. If the address does
not answer, what was fetched before goes on being trusted for a while, and then not: a key that was
taken back must not live on because nobody could ask.
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
    """The keys could not be fetched, so nothing can be verified now; later it may be."""


class KeySetFormatError(TenantcronError):
    """The document is not a JSON Web Key Set."""


class KeySet(Protocol):
    """Public keys by name."""

    def find(self, kid: str) -> PublicKey | None:
        """Return a key; None if no trusted key has that name."""


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
    """Keys that an address serves; threads may share it."""

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
            one.total_seconds() for one in (lifetime, pause, trust)
        )
        self._clock = clock
        self._lock = Lock()
        self._by_kid: Mapping[str, PublicKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def find(self, kid: str) -> PublicKey | None:
        """Return a key; the set is fetched if it is old, or does not have that name."""
        if not self._is_current(kid):
            # One at a time: the others find what the first one has fetched.
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
            return  # what is there is trusted for a while; `_trusted` tells when it is not
        self._fetched_at = self._tried_at

    def _trusted(self) -> Mapping[str, PublicKey]:
        if self._age() >= self._trust:
            raise KeysUnavailableError(
                f"no keys could be fetched from {shown_address(self._url)}: see that it answers "
                "with a key set"
            )
        return self._by_kid


def read_key_set(document: object) -> dict[str, PublicKey]:
    """Read a JSON Web Key Set; keys of other kinds are left out."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise KeySetFormatError(f"expected a key set: an object with `keys`, at most {MOST_KEYS}")
    read = (from_jwk(key) for key in keys if isinstance(key, dict))
    return {key.kid: key for key in read if key is not None}
