"""The kinds of authentication of HTTP targets, as manifests have them."""

from collections.abc import Sized
from typing import Annotated, Final, NotRequired, TypeVar

from pydantic import AfterValidator, ConfigDict, with_config

# pydantic needs this TypedDict before Python 3.12.
from typing_extensions import TypedDict

from tenantcron.core import secret_refs
from tenantcron.core.auth import LONGEST_AUDIENCE
from tenantcron.manifests.language.model_fields import CLOSED, described

T = TypeVar("T", bound=Sized)

_ONE_KEY = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1, "maxProperties": 1})


def _is_one(mapping: T) -> T:
    if len(mapping) != 1:
        raise ValueError("exactly one of its keys")
    return mapping


_FILE = described(
    "A file on the scheduler's machine.",
    pattern=f"^{secret_refs.FILE_PATTERN}$",
    extra={"x-expects": secret_refs.FILE_EXPECTED},
)


@with_config(_ONE_KEY)
class SecretSpec(TypedDict, total=False):
    """A reference to a secret, which the policy's allowed_secrets must list."""

    env: Annotated[
        str,
        described(
            "An environment variable of the scheduler.",
            pattern=f"^{secret_refs.ENV_PATTERN}$",
            extra={"x-expects": secret_refs.ENV_EXPECTED},
        ),
    ]
    file: Annotated[str, _FILE]


OneSecret = Annotated[SecretSpec, AfterValidator(_is_one)]


@with_config(CLOSED)
class SecretFileSpec(TypedDict):
    """A reference to a PEM file, which the policy's allowed_secrets must list."""

    file: Annotated[str, _FILE]


@with_config(CLOSED)
class TokenAuthSpec(TypedDict, total=False):
    """A token that proves the execution, as a bearer token."""

    audience: Annotated[
        str,
        described(
            "The service that the token is for. Default: the origin of the URL; the policy's "
            "allowed_audiences lists others.",
            max_length=LONGEST_AUDIENCE,
        ),
    ]


@with_config(CLOSED)
class HmacAuthSpec(TypedDict):
    """A signature over method, URL, time, idempotency key and body."""

    secret: OneSecret


@with_config(CLOSED)
class BearerAuthSpec(TypedDict):
    """A secret that is sent as a bearer token."""

    secret: OneSecret


@with_config(CLOSED)
class OAuth2AuthSpec(TypedDict):
    """A bearer token of an OAuth 2.0 token endpoint, by the client credentials grant."""

    token_url: Annotated[
        str,
        described(
            "The token endpoint; its host must be in the platform's allowed_hosts.",
            max_length=2048,
            examples=["https://login.internal/oauth2/token"],
        ),
    ]
    client_id: Annotated[
        str,
        described(
            "The id of the client.",
            pattern="^[ -~]{1,255}$",
            extra={"x-expects": "1 to 255 characters of printable ASCII"},
        ),
    ]
    secret: OneSecret
    scope: NotRequired[
        Annotated[
            str,
            described(
                "The scopes to request, separated by spaces. Default: those of the client.",
                # RFC 6749, 3.3.
                pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$",
                max_length=1024,
                extra={"x-expects": "scopes separated by single spaces"},
            ),
        ]
    ]


@with_config(CLOSED)
class MtlsAuthSpec(TypedDict):
    """A client certificate in the TLS handshake."""

    certificate: Annotated[
        SecretFileSpec, described("The certificate and its intermediates, as PEM.")
    ]
    key: Annotated[SecretFileSpec, described("The private key, as PEM without a passphrase.")]


@with_config(_ONE_KEY)
class AuthSpec(TypedDict, total=False):
    """How a request is authenticated."""

    execution_token: TokenAuthSpec
    hmac: HmacAuthSpec
    bearer: BearerAuthSpec
    oauth2_client_credentials: OAuth2AuthSpec
    mtls: MtlsAuthSpec


OneAuth = Annotated[AuthSpec, AfterValidator(_is_one)]

# Editors show it, too.
AUTH_HINT: Final = {
    "x-hint": "write none, execution_token, {bearer: {secret: {env: NAME}}}, "
    "{hmac: {secret: {env: NAME}}}, {oauth2_client_credentials: {token_url: URL, client_id: ID, "
    "secret: {env: NAME}}} or {mtls: {certificate: {file: PATH}, key: {file: PATH}}}"
}
