"""Manually built tokens, valid and invalid."""

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
    """Return a time in the format of tokens."""
    return int((datetime.now(UTC) + timedelta(**from_now)).timestamp())


def payload(**changes: object) -> dict[str, object]:
    """Return the claims of a valid token, with changes."""
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
        "attempt": 1,
        "lease": "0" * 32,
        "deadline": seconds(minutes=5),
        **changes,
    }


def signed(content: dict[str, object], key: SigningKey = KEY, **header: object) -> str:
    """Sign it as tenantcron does; the header may differ."""
    headers = {"kid": key.public.kid, **header}
    return jwt.encode(content, key.private, key.public.algorithm.value, headers=headers)


def forged(header: dict[str, object], content: dict[str, object], secret: bytes = b"") -> str:
    """Build a token that no library would: signed with an HMAC, or not at all."""
    parts = ".".join(encoded(json.dumps(part).encode()) for part in (header, content))
    signature = hmac.new(secret, parts.encode(), sha256).digest() if secret else b""
    return f"{parts}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    """Encode bytes as in tokens."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()
