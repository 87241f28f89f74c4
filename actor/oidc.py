"""Tokens of an OIDC issuer: how one proves who presents it.

The issuer says who a caller is. Two claims that it adds grant access: `tenantcron_role`, and
`tenantcron_tenant`, which is a tenant's id, or `*` for all tenants. Without one of them there is no
access: a claim that the issuer forgets must not grant more than one that it writes. Only signatures
with a key pair count: with a shared secret, a verifier could also sign.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import jwt

from tenantcron.actor.api_tokens import API_SOURCE
from tenantcron.actor.grants import Grant, MissingClaimError, NotProvenError, Proven, Role
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
# Clocks of two machines differ a little.
_LEEWAY: Final = timedelta(seconds=30)
_REQUIRED: Final = ("iss", "aud", "sub", "exp")


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens count, and for whom they must be meant."""

    name: str
    audience: str


def key_id(token: str) -> str | None:
    """Return which key a token says that it was signed with; nothing of it is proven."""
    try:
        found: object = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError as error:
        raise NotProvenError(f"not a token: {error}") from error
    return found if isinstance(found, str) else None


def prove(token: str, key: jwt.PyJWK, issuer: Issuer, now: datetime) -> Proven:
    """Return who presents the token; raise if anything about it is not right."""
    claims = _claims(token, key, issuer)
    _refuse_untimely(claims, now)
    try:
        actor = AuthenticatedActor(f"oidc:{_subject(claims)}", ActorType.HUMAN, API_SOURCE, WITNESS)
    except InvalidActorError as error:
        raise NotProvenError(str(error)) from error
    return Proven(actor, Grant(_role(claims), _tenant(claims)))


def _claims(token: str, key: jwt.PyJWK, issuer: Issuer) -> Mapping[str, object]:
    # Times are judged by the clock that the caller says, not by this machine's.
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
        raise NotProvenError(f"the token does not verify: {error}") from error
    return claims


def _refuse_untimely(claims: Mapping[str, object], now: datetime) -> None:
    if _moment(claims["exp"]) + _LEEWAY <= now:
        raise NotProvenError("the token has expired")
    if "nbf" in claims and _moment(claims["nbf"]) - _LEEWAY > now:
        raise NotProvenError("the token is not valid yet")


def _moment(claim: object) -> datetime:
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        raise NotProvenError("a time of the token is not a number")
    try:
        return datetime.fromtimestamp(claim, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise NotProvenError("a time of the token is out of range") from error


def _subject(claims: Mapping[str, object]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.strip():
        raise NotProvenError("the subject of the token is not text, or is empty")
    return subject


def _role(claims: Mapping[str, object]) -> Role:
    if ROLE_CLAIM not in claims:
        raise MissingClaimError(ROLE_CLAIM, f"one of {', '.join(Role)}")
    role = claims[ROLE_CLAIM]
    if role not in list(Role):
        raise NotProvenError(f"`{ROLE_CLAIM}` of the token is not a role")
    return Role(str(role))


def _tenant(claims: Mapping[str, object]) -> TenantId | None:
    """Return the tenant of the grant, None for all; only an explicit claim grants all."""
    if TENANT_CLAIM not in claims:
        raise MissingClaimError(TENANT_CLAIM, f"a tenant's id, or `{ALL_TENANTS}` for all tenants")
    tenant = claims[TENANT_CLAIM]
    if tenant == ALL_TENANTS:
        return None
    if not isinstance(tenant, str) or not is_tenant_id(tenant) or is_reserved(tenant):
        raise NotProvenError(f"`{TENANT_CLAIM}` of the token is not a tenant")
    return TenantId(tenant)
