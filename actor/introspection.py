"""Introspection: a receiver asks the issuer whether the attempt of a token still runs (RFC 7662).

    introspection = Introspection("https://cron.internal/v1/tokens:introspect")
    Verifier(keys=keys, issuer="tenantcron", audience=ours, introspection=introspection)

A signature alone says nothing about that: a token verifies until it expires, also if its execution
has ended. Each answer is kept for some seconds, so a token that comes many times costs one request.
What the issuer cannot answer is an error, never a yes.
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
MOST_KEPT: Final = 10_000


class IntrospectionUnavailableError(TenantcronError):
    """The issuer does not answer, so whether a token is active is not known now."""


class _Answer(NamedTuple):
    active: bool
    until: float


@final
class Introspection:
    """Asks the issuer at an address; threads may share it.

    By default the token itself is the credential. With `api_token`, that is: an API token of
    tenantcron, which may be bound to a tenant.
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
        self._kept: dict[str, _Answer] = {}

    def is_active(self, token: str, proof: Proof) -> bool:
        """Whether the attempt of a verified token still runs."""
        kept = self._kept.get(proof.token_id)
        if kept is not None and self._clock() < kept.until:
            return kept.active
        asked_at = self._clock()
        active = self._ask(token, proof)
        self._keep(proof.token_id, _Answer(active, asked_at + self._lifetime))
        return active

    def _ask(self, token: str, proof: Proof) -> bool:
        headers = {"Authorization": f"Bearer {self._api_token or token}"}
        try:
            answer = fetch_json(self._url, PATIENCE, {"token": token}, headers)
        except HTTPError as error:
            raise _unavailable(f"status {error.code}") from None
        except (OSError, ValueError) as error:
            raise _unavailable(type(error).__name__) from None
        match answer:
            case {"active": False}:
                return False
            case {"active": True, "jti": proof.token_id}:
                return True
        raise _unavailable("it is no answer about this token")

    def _keep(self, token_id: str, answer: _Answer) -> None:
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                now = self._clock()
                self._kept = {key: kept for key, kept in self._kept.items() if now < kept.until}
            if len(self._kept) < MOST_KEPT:
                self._kept[token_id] = answer


def _unavailable(why: str) -> IntrospectionUnavailableError:
    return IntrospectionUnavailableError(
        f"the issuer did not say whether the token is active ({why}): see that it can be reached"
    )
