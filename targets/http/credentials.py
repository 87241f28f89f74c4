"""Credentials of a request: headers, or a client certificate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from tenantcron.actor.signatures import SIGNATURE, SIGNATURE_V1, SignedRequest


class CertificateFiles(NamedTuple):
    """The paths of a client certificate and its private key."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What authenticates a request, and the secrets in it that must never be shown."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)
    certificate: CertificateFiles | None = None
    # Drops a token of a cache, which the service may reject before it expires. None: not cached.
    drop: Callable[[], None] | None = None

    def droppable(self, drop: Callable[[], None]) -> "RequestCredentials":
        """Return them with a function that drops the cached token."""
        return replace(self, drop=drop)


def signed(secret: bytes, request: SignedRequest) -> RequestCredentials:
    """Return the headers that sign a request."""
    headers = request.headers(secret)
    digests = headers[SIGNATURE], headers[SIGNATURE_V1].partition("=")[2]
    return RequestCredentials(headers, (secret.decode(errors="replace"), *digests))


def timestamp(moment: datetime) -> str:
    """Format a time as Unix seconds, for signatures."""
    return str(int(moment.timestamp()))


def bearer(token: str) -> RequestCredentials:
    """Return the header of a bearer token."""
    return RequestCredentials({"Authorization": f"Bearer {token}"}, (token,))
