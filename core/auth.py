"""How the request of an HTTP target proves whom it is from."""

from typing import NamedTuple

from tenantcron.core.secret_refs import SecretRef


class TokenAuth(NamedTuple):
    """A bearer token that proves the execution; its audience is the URL's origin by default."""

    audience: str | None = None


class HmacAuth(NamedTuple):
    """A signature with a secret that is kept elsewhere."""

    secret: SecretRef


Auth = TokenAuth | HmacAuth
