"""How a request to an HTTP target is authenticated."""

from collections.abc import Container
from typing import Final, NamedTuple

from tenantcron.core.secret_refs import SecretRef

LONGEST_AUDIENCE: Final = 255
# Printable ASCII without spaces around it.
AUDIENCE_PATTERN: Final = r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?"


class TokenAuth(NamedTuple):
    """A bearer token of the execution; its audience is the URL's origin by default."""

    audience: str | None = None


class HmacAuth(NamedTuple):
    """An HMAC signature; the manifest only names the secret."""

    secret: SecretRef


Auth = TokenAuth | HmacAuth


class AudienceRefusal(NamedTuple):
    """Why a target gets no token for an audience, and how to fix it."""

    message: str
    hint: str


def audience_refusal(audience: str, origin: str, allowed: Container[str]) -> AudienceRefusal | None:
    """Return why a target at an origin gets no token for an audience; None if it does.

    The called service receives the token. If it could name any audience, it could call every other
    service as the tenant.
    """
    if audience == origin or audience in allowed:
        return None
    return AudienceRefusal(
        f"{audience} is not an audience that targets at {origin} may have tokens for",
        f'leave it out for {origin}; or the platform team can add "{audience}" to '
        "allowed_audiences in the [policy] table",
    )
