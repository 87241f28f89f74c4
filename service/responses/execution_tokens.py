"""Responses about execution tokens; the keys are those of RFC 7662 and RFC 6749."""

from typing import NotRequired

# Pydantic requires this TypedDict on older versions of Python.
from typing_extensions import TypedDict


class TokenIntrospection(TypedDict):
    """Whether a token is active, and its claims if so."""

    active: bool
    token_type: NotRequired[str]
    iss: NotRequired[str]
    sub: NotRequired[str]
    aud: NotRequired[str]
    jti: NotRequired[str]
    iat: NotRequired[int]
    nbf: NotRequired[int]
    exp: NotRequired[int]
    tenant: NotRequired[str]
    roles: NotRequired[list[str]]
    execution: NotRequired[str]
    attempt: NotRequired[int]
    deadline: NotRequired[int]
    owner: NotRequired[str]


class RenewedToken(TypedDict):
    """A new token, as in RFC 6749."""

    access_token: str
    token_type: str
    expires_in: int
