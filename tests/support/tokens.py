"""Tokens put together by hand, right ones and wrong ones."""

import hmac
import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

import jwt

from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.keys import Algorithm, SigningKey, generate, jwks
from tenantcron.actor.verification import Verifier

ISSUER = "tenantcron"
AUDIENCE = "https://billing.internal"
EXECUTION = UUID(int=7)
KEY = generate(Algorithm.EDDSA)
CURVE_KEY = generate(Algorithm.ES256)
KEYS = FixedKeys(jwks([KEY.public, CURVE_KEY.public]))
VERIFIER = Verifier(keys=KEYS, issuer=ISSUER, audience=AUDIENCE)


def seconds(**from_now: float) -> int:
    """Return a moment as tokens write it."""
    return int((datetime.now(UTC) + timedelta(**from_now)).timestamp())


def payload(**changes: object) -> dict[str, object]:
    """Return what a valid token says, with changes."""
    return {
        "iss": ISSUER,
        "sub": "system:scheduler:scheduler",
        "aud": AUDIENCE,
        "tenant": "acme",
        "roles": ["service"],
        "execution": str(EXECUTION),
        "jti": "one",
        "iat": seconds(),
        "nbf": seconds(),
        "exp": seconds(minutes=6),
        **changes,
    }


def signed(content: dict[str, object], key: SigningKey = KEY, **header: object) -> str:
    """Sign it as tenantcron does; the header may say something else."""
    headers = {"kid": key.public.kid, **header}
    return jwt.encode(content, key.private, key.public.algorithm.value, headers=headers)


def by_hand(header: dict[str, object], content: dict[str, object], secret: bytes = b"") -> str:
    """Put a token together that no library would: signed by an HMAC with any secret, or not."""
    parts = ".".join(encoded(json.dumps(part).encode()) for part in (header, content))
    signature = hmac.new(secret, parts.encode(), sha256).digest() if secret else b""
    return f"{parts}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    """Write bytes as tokens do."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()
