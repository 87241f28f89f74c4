"""Signatures of requests: a service that shares a secret with the platform verifies who calls it.

Version 2 covers everything that decides what a request does. It is the HMAC-SHA256, in hexadecimal,
of these lines, each ended by a line feed, and the bytes of the body:

    v2, the timestamp, the method, the URL, the idempotency key

The URL is absolute and exactly as it was requested, query included; scheme and host are in lower
case, and the port is left out if it is the scheme's own. No line can hold a line feed, so different
requests never have the same text.

Version 1 covers neither method nor URL: a receiver that shares its secret with another one, or has
several routes, can be sent the request of another route. Requests carry both for one release.
"""

import hmac
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tenantcron.core.errors import TenantcronError

TIMESTAMP: Final = "X-Tenantcron-Timestamp"
SIGNATURE: Final = "X-Tenantcron-Signature-V2"
SIGNATURE_V1: Final = "X-Tenantcron-Signature"
KEY: Final = "Idempotency-Key"
TOLERANCE: Final = timedelta(minutes=5)


class InvalidSignatureError(TenantcronError):
    """The request is not from a holder of the secret, was changed, or is old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """What a signature covers; the timestamp is in Unix seconds."""

    method: str
    url: str
    timestamp: str
    key: str
    body: bytes

    def digest(self, secret: bytes) -> str:
        """Return the signature of version 2."""
        head = ("v2", self.timestamp, self.method.upper(), self.url, self.key, "")
        return hmac.new(secret, _bytes("\n".join(head)) + self.body, "sha256").hexdigest()

    def digest_v1(self, secret: bytes) -> str:
        """Return the signature of version 1, with its prefix."""
        signed = _bytes(f"v1:{self.timestamp}:{self.key}:") + self.body
        return f"v1={hmac.new(secret, signed, 'sha256').hexdigest()}"

    def headers(self, secret: bytes) -> dict[str, str]:
        """Return the headers that sign the request."""
        return {
            TIMESTAMP: self.timestamp,
            SIGNATURE: self.digest(secret),
            SIGNATURE_V1: self.digest_v1(secret),
        }


def verify_signature(  # noqa: PLR0913 -- the parts of a request
    secret: bytes,
    *,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
    accept_v1: bool = False,
) -> None:
    """Raise an InvalidSignatureError unless a holder of the secret sent exactly this request.

    The URL is the public one, as the caller requested it: behind a proxy, not the inner one. If the
    request has a signature of version 2, that one decides. `accept_v1` accepts requests of older
    schedulers, which have version 1 only; remove it once all of them are upgraded.
    """
    given = {name.lower(): value for name, value in headers.items()}
    timestamp = given.get(TIMESTAMP.lower(), "")
    _refuse_old(timestamp, now or datetime.now(UTC), tolerance)
    key = given.get(KEY.lower(), "")
    request = SignedRequest(method=method, url=url, timestamp=timestamp, key=key, body=body)
    signature = given.get(SIGNATURE.lower())
    expected = request.digest(secret)
    if signature is None and accept_v1:
        warnings.warn("accept_v1 goes with the next release", DeprecationWarning, stacklevel=2)
        signature, expected = given.get(SIGNATURE_V1.lower()), request.digest_v1(secret)
    if signature is None:
        raise InvalidSignatureError(f"the request has no {SIGNATURE}")
    if not hmac.compare_digest(expected.encode(), _bytes(signature)):
        raise InvalidSignatureError(
            "the signature does not match: compare the secret, and the method, the URL and the "
            "body with what was sent"
        )


def _bytes(text: str) -> bytes:
    # Frameworks decode bytes that are not UTF-8 to surrogates. They are refused, not a crash.
    return text.encode(errors="surrogatepass")


def _refuse_old(timestamp: str, now: datetime, tolerance: timedelta) -> None:
    if re.fullmatch("[0-9]{1,12}", timestamp) is None:
        raise InvalidSignatureError(f"the request has no {TIMESTAMP} in Unix seconds")
    if abs(now.timestamp() - int(timestamp)) > tolerance.total_seconds():
        raise InvalidSignatureError(
            f"the request is not within {tolerance.total_seconds():g} s of now: it is a repeated "
            "one, or the clocks differ"
        )
