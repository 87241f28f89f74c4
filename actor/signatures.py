"""Request signatures: a service that shares a secret with the platform verifies its caller.

Version 2 covers everything that determines what a request does. It is the HMAC-SHA256, in
hexadecimal, of these lines, each ended by a line feed, and the bytes of the body:

    v2, the timestamp, the method, the URL, the idempotency key

The URL is absolute and exactly as requested, query included. Scheme and host are in lower case, and
a default port is omitted. No line can contain a line feed, so different requests never have the
same text.

Version 1 covers neither method nor URL. If receivers share a secret, or one has several routes, a
signed request can be replayed to another route. Requests carry both versions for one release.
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
    """The request was not signed with the secret, was changed, or is too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """The parts of a request that a signature covers; the timestamp is in Unix seconds."""

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
    """Raise an InvalidSignatureError unless exactly this request was signed with the secret.

    `url` is the public URL that the caller requested: behind a proxy, not the internal one. If the
    request has a signature of version 2, only that one is checked. `accept_v1` accepts requests of
    older schedulers, which only have version 1; remove it once all of them are upgraded.
    """
    given = {name.lower(): value for name, value in headers.items()}
    timestamp = given.get(TIMESTAMP.lower(), "")
    _check_age(timestamp, now or datetime.now(UTC), tolerance)
    key = given.get(KEY.lower(), "")
    request = SignedRequest(method=method, url=url, timestamp=timestamp, key=key, body=body)
    signature = given.get(SIGNATURE.lower())
    expected = request.digest(secret)
    if signature is None and accept_v1:
        text = "accept_v1 will be removed in the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        signature, expected = given.get(SIGNATURE_V1.lower()), request.digest_v1(secret)
    if signature is None:
        raise InvalidSignatureError(f"the request has no {SIGNATURE}")
    if not hmac.compare_digest(expected.encode(), _bytes(signature)):
        raise InvalidSignatureError(
            "the signature does not match: check the secret, and compare the method, the URL and "
            "the body with the request that was sent"
        )


def _bytes(text: str) -> bytes:
    # Frameworks decode invalid UTF-8 to surrogates. Such a request is rejected and does not crash.
    return text.encode(errors="surrogatepass")


def _check_age(timestamp: str, now: datetime, tolerance: timedelta) -> None:
    if re.fullmatch("[0-9]{1,12}", timestamp) is None:
        raise InvalidSignatureError(f"the request has no {TIMESTAMP} in Unix seconds")
    if abs(now.timestamp() - int(timestamp)) > tolerance.total_seconds():
        raise InvalidSignatureError(
            f"the timestamp is not within {tolerance.total_seconds():g} s of now: the request was "
            "replayed, or the clocks differ"
        )
