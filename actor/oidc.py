"""Tokens of an OIDC issuer: how a caller authenticates with one.

The issuer identifies the caller. Two claims grant access: `tenantcron_role`, and
`tenantcron_tenant`, which is a tenant's id or `*` for all tenants. Both are required: a missing
claim must never grant more than a present one. Only asymmetric signatures are accepted: with a
shared secret, a verifier could also sign.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import jwt

from tenantcron.actor.api_tokens import API_SOURCE
from tenantcron.actor.grants import (
    AuthenticatedCaller,
    Grant,
    InvalidCredentialsError,
    MissingClaimError,
    Role,
)
from tenantcron.actor.model import ActorType, AuthenticatedActor, InvalidActorError
from tenantcron.actor.witness import WITNESS
from tenantcron.core.names import TenantId, is_reserved, is_tenant_id

ROLE_CLAIM: Final = "tenantcron_role"
TENANT_CLAIM: Final = "tenantcron_tenant"
ALL_TENANTS: Final = "*"
ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
# Allows for clock skew between two machines.
_LEEWAY: Final = timedelta(seconds=30)
_REQUIRED: Final = ("iss", "aud", "sub", "exp")


@dataclass(frozen=True, slots=True)
class Issuer:
    """The accepted issuer, and the required audience of its tokens."""

    name: str
    audience: str


def key_id(token: str) -> str | None:
    """Return the key id in the header of a token, which is not verified."""
    try:
        found: object = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError as error:
        raise InvalidCredentialsError(f"not a token: {error}") from error
    return found if isinstance(found, str) else None


def authenticate(token: str, key: jwt.PyJWK, issuer: Issuer, now: datetime) -> AuthenticatedCaller:
    """Return the caller; raise if the token is invalid."""
    claims = _claims(token, key, issuer)
    _check_times(claims, now)
    try:
        actor = AuthenticatedActor(f"oidc:{_subject(claims)}", ActorType.HUMAN, API_SOURCE, WITNESS)
    except InvalidActorError as error:
        raise InvalidCredentialsError(str(error)) from error
    return AuthenticatedCaller(actor, Grant(_role(claims), _tenant(claims)))


def _claims(token: str, key: jwt.PyJWK, issuer: Issuer) -> Mapping[str, object]:
    # Times are compared with the given clock, not with the clock of this machine.
    options: jwt.types.Options = {
        "require": list(_REQUIRED),
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
    }
    try:
        claims: Mapping[str, object] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=issuer.audience,
            issuer=issuer.name,
            options=options,
        )
    except jwt.PyJWTError as error:
        raise InvalidCredentialsError(f"the token does not verify: {error}") from error
    return claims


def _check_times(claims: Mapping[str, object], now: datetime) -> None:
    if _moment(claims["exp"]) + _LEEWAY <= now:
        raise InvalidCredentialsError("the token has expired")
    if "nbf" in claims and _moment(claims["nbf"]) - _LEEWAY > now:
        raise InvalidCredentialsError("the token is not valid yet")


def _moment(claim: object) -> datetime:
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        raise InvalidCredentialsError("a time of the token is not a number")
    try:
        return datetime.fromtimestamp(claim, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidCredentialsError("a time of the token is out of range") from error


def _subject(claims: Mapping[str, object]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidCredentialsError("the subject of the token is not text, or is empty")
    return subject


def _role(claims: Mapping[str, object]) -> Role:
    if ROLE_CLAIM not in claims:
        raise MissingClaimError(ROLE_CLAIM, f"one of {', '.join(Role)}")
    role = claims[ROLE_CLAIM]
    if role not in list(Role):
        raise InvalidCredentialsError(f"`{ROLE_CLAIM}` of the token is not a role")
    return Role(str(role))


def _tenant(claims: Mapping[str, object]) -> TenantId | None:
    """Return the tenant of the grant; None, for all tenants, needs an explicit claim."""
    if TENANT_CLAIM not in claims:
        raise MissingClaimError(TENANT_CLAIM, f"a tenant's id, or `{ALL_TENANTS}` for all tenants")
    tenant = claims[TENANT_CLAIM]
    if tenant == ALL_TENANTS:
        return None
    if not isinstance(tenant, str) or not is_tenant_id(tenant) or is_reserved(tenant):
        raise InvalidCredentialsError(f"`{TENANT_CLAIM}` of the token is not a tenant")
    return TenantId(tenant)
