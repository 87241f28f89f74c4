"""API tokens: how they are generated and verified.

A token is `tc_`, its public id, `_` and a secret of 256 bits. The prefix lets secret scanners find
tokens in repositories. The database finds a token by its id and stores only a digest of its secret.
A fast digest is enough, because a secret of this size cannot be brute-forced.
"""

import hmac
import re
import secrets
import string
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from tenantcron.actor.grants import AuthenticatedCaller, Grant, InvalidCredentialsError
from tenantcron.actor.model import ActorType, AuthenticatedActor
from tenantcron.actor.witness import WITNESS

API_SOURCE: Final = "api"
PREFIX: Final = "tc"
_ALPHABET: Final = string.ascii_letters + string.digits
_ID_ALPHABET: Final = string.ascii_lowercase + string.digits
_ID_LENGTH: Final = 12
# 62 ** 43 is more than 2 ** 256.
_SECRET_LENGTH: Final = 43
_FORM: Final = re.compile(
    rf"{PREFIX}_(?P<id>[0-9a-z]{{{_ID_LENGTH}}})_(?P<secret>[0-9A-Za-z]{{{_SECRET_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token; `text` is shown once and not stored."""

    id: str
    digest: bytes
    text: str


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token as a caller presents it, without its secret."""

    id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as it is stored in the database."""

    id: str
    name: str
    digest: bytes
    grant: Grant
    expires_at: datetime
    revoked_at: datetime | None


def id_within(text: str) -> str | None:
    """Return the id of a token; None if the text is not a token."""
    found = _FORM.fullmatch(text)
    return found["id"] if found else None


def make_token() -> NewToken:
    """Generate a random token."""
    public = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
    return NewToken(public, _digest(secret), f"{PREFIX}_{public}_{secret}")


def read_token(text: str) -> PresentedToken | None:
    """Parse a token; None if the text does not have the form of one."""
    found = _FORM.fullmatch(text)
    return None if found is None else PresentedToken(found["id"], _digest(found["secret"]))


def authenticate(
    presented: PresentedToken, stored: StoredToken | None, now: datetime
) -> AuthenticatedCaller:
    """Return the caller; raise if the token is unknown, wrong, revoked or expired."""
    # Compare even if the token does not exist, so that both cases take the same time.
    matches = hmac.compare_digest(presented.digest, b"\0" * 32 if stored is None else stored.digest)
    if stored is None or not matches:
        raise InvalidCredentialsError("there is no such token")
    if stored.revoked_at is not None:
        raise InvalidCredentialsError(f"token {stored.id} was revoked")
    if stored.expires_at <= now:
        raise InvalidCredentialsError(f"token {stored.id} has expired")
    actor = AuthenticatedActor(f"token:{stored.name}", ActorType.PIPELINE, API_SOURCE, WITNESS)
    return AuthenticatedCaller(actor, stored.grant)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
