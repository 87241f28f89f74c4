"""How a request to an HTTP target is authenticated."""

from collections.abc import Container
from typing import Final, NamedTuple, TypeAlias

from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonValue

LONGEST_AUDIENCE: Final = 255
# Printable ASCII without spaces around it.
AUDIENCE_PATTERN: Final = r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?"


class TokenAuth(NamedTuple):
    """A bearer token of the execution; its audience is the URL's origin by default."""

    audience: str | None = None


class HmacAuth(NamedTuple):
    """An HMAC signature; the manifest only names the secret."""

    secret: SecretRef


class BearerAuth(NamedTuple):
    """A bearer token that is itself the secret."""

    secret: SecretRef


class OAuth2Auth(NamedTuple):
    """A bearer token of an OAuth 2.0 token endpoint, by the client credentials grant."""

    token_url: str
    client_id: str
    secret: SecretRef
    # Scopes, separated by spaces; None: the default of the token endpoint.
    scope: str | None = None


class MtlsAuth(NamedTuple):
    """A client certificate in the TLS handshake, and its private key."""

    certificate: SecretRef
    key: SecretRef


Auth: TypeAlias = TokenAuth | HmacAuth | BearerAuth | OAuth2Auth | MtlsAuth


def secrets_of(auth: Auth | None) -> dict[str, SecretRef]:
    """Return the references to secrets, by their keys in a manifest."""
    match auth:
        case None | TokenAuth():
            return {}
        case MtlsAuth(certificate, key):
            return {"certificate": certificate, "key": key}
        case HmacAuth() | BearerAuth() | OAuth2Auth():
            return {"secret": auth.secret}


def read_token_auth(auth: JsonValue) -> TokenAuth | None:
    """Read the `auth` of a kind whose only credentials are execution tokens."""
    match auth:
        case "execution_token":
            return TokenAuth()
        case {"execution_token": {"audience": str(audience)}}:
            return TokenAuth(audience)
        case {"execution_token": _}:
            return TokenAuth()
        case _:
            return None


def kind_of(auth: Auth) -> str:
    """Return the key of a kind in a manifest."""
    match auth:
        case TokenAuth():
            return "execution_token"
        case HmacAuth():
            return "hmac"
        case BearerAuth():
            return "bearer"
        case OAuth2Auth():
            return "oauth2_client_credentials"
        case MtlsAuth():
            return "mtls"


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
