"""API tokens: how one is made, and how one proves who presents it.

A token is `tc_`, its public id, `_` and a secret of 256 bits. The prefix lets scanners find tokens
that got into a repository. The database finds a token by its id and keeps the digest of its secret
only: a secret of that size cannot be guessed from a fast digest, so a slow one would only cost.
"""

import hmac
import re
import secrets
import string
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from tenantcron.actor.grants import Grant, NotProvenError, Proven
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
    """A token that was made just now; `text` is shown once and kept nowhere."""

    id: str
    digest: bytes
    text: str


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token as somebody presents it, without its secret."""

    id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class KeptToken:
    """A token as the database keeps it."""

    id: str
    name: str
    digest: bytes
    grant: Grant
    expires_at: datetime
    revoked_at: datetime | None


def make_token() -> NewToken:
    """Make a token that nobody can guess."""
    public = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
    return NewToken(public, _digest(secret), f"{PREFIX}_{public}_{secret}")


def read_token(text: str) -> PresentedToken | None:
    """Return what a text presents, None if it has not the form of a token."""
    found = _FORM.fullmatch(text)
    return None if found is None else PresentedToken(found["id"], _digest(found["secret"]))


def prove(presented: PresentedToken, kept: KeptToken | None, now: datetime) -> Proven:
    """Return who presents the token; raise if it is not known, wrong, revoked or expired."""
    # The comparison takes place whether there is such a token or not, and takes the same time.
    right = hmac.compare_digest(presented.digest, b"\0" * 32 if kept is None else kept.digest)
    if kept is None or not right:
        raise NotProvenError("there is no such token")
    if kept.revoked_at is not None:
        raise NotProvenError(f"token {kept.id} was revoked")
    if kept.expires_at <= now:
        raise NotProvenError(f"token {kept.id} has expired")
    actor = AuthenticatedActor(f"token:{kept.name}", ActorType.PIPELINE, API_SOURCE, WITNESS)
    return Proven(actor, kept.grant)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
