"""Verification: the only way from a token to an authenticated actor.

A token is taken apart in this order, and refused at the first thing that is not as it should be:

1. its form and its header: an algorithm of ours, the name of a key;
2. the key of that name, among those that the receiver trusts; a key knows its own algorithm, and
   the token must say the same, so that no key is ever used in a way it was not made for;
3. the signature;
4. the claims: all are there; issuer and audience are the expected ones; the time is between `nbf`
   and `exp`, give or take the leeway; the subject is a scheduler's identity with its role;
5. the tenant, if the receiver asks for one;
6. whether it was seen before, if the receiver keeps track of that.

Whoever gets a `Proof` knows who acts, for which tenant and in which execution. It holds no secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

import jwt

from tenantcron.actor.key_sets import KeySet
from tenantcron.actor.keys import Algorithm, PublicKey
from tenantcron.actor.model import ActorType, AuthenticatedActor
from tenantcron.actor.tokens import CLAIMS, OWNER, ROLE
from tenantcron.actor.witness import WITNESS
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner, TenantId, is_name, is_owner, is_tenant_id

SOURCE: Final = "token"
IDENTITY: Final = "system:scheduler:"
LEEWAY: Final = timedelta(seconds=10)
LONGEST_LEEWAY: Final = timedelta(minutes=1)
# Ours have less than a kilobyte; what is longer is not even looked at.
LONGEST_TOKEN: Final = 8 * 1024
LONGEST_TOKEN_ID: Final = 255


class Refusal(StrEnum):
    """Why a token proves nothing."""

    MALFORMED = "malformed"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown-key"
    SIGNATURE = "signature"
    CLAIMS = "claims"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    SUBJECT = "subject"
    TENANT = "tenant"
    ROLE = "role"
    REPLAYED = "replayed"


class InvalidTokenError(TenantcronError):
    """A token that proves nothing, and why; the text never holds the token."""

    def __init__(self, refusal: Refusal, text: str) -> None:
        super().__init__(text)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Proof:
    """What a verified token proves."""

    actor: AuthenticatedActor
    tenant: TenantId
    execution: UUID
    roles: tuple[str, ...]
    token_id: str
    expires_at: datetime
    # On whose behalf the actor acts, as its platform says; they have proven nothing here.
    owner: Owner | None = None


class SeenTokens(Protocol):
    """Remembers tokens, for receivers that take each one once only."""

    def is_new(self, token_id: str, expires_at: datetime) -> bool:
        """Whether it comes for the first time; remember it until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Verifies tokens of one issuer for one audience, this service."""

    keys: KeySet
    issuer: str
    audience: str
    leeway: timedelta = LEEWAY
    seen: SeenTokens | None = None
    # A role that the token must have, such as `service:billing`; None: any scheduler may call.
    role: str | None = None

    def __post_init__(self) -> None:
        # An empty one would be compared with nothing.
        if not self.issuer or not self.audience:
            raise ValueError("name the issuer, and the audience that this service is")
        if not timedelta(0) <= self.leeway <= LONGEST_LEEWAY:
            raise ValueError(f"a leeway is 0 to {LONGEST_LEEWAY.seconds} seconds")

    def verify(self, token: str, *, tenant: str | None = None) -> Proof:
        """Return what the token proves, an InvalidTokenError if it is nothing.

        With a tenant, the token must be of that one; without, the proof says whose it is.
        """
        payload = self._payload(token, self._key(token))
        proof = _proof(payload)
        if tenant is not None and proof.tenant != tenant:
            raise InvalidTokenError(Refusal.TENANT, "the token is another tenant's")
        if self.role is not None and self.role not in proof.roles:
            raise InvalidTokenError(Refusal.ROLE, f"the token lacks the role {self.role}")
        if self.seen is not None and not self.seen.is_new(proof.token_id, proof.expires_at):
            raise InvalidTokenError(Refusal.REPLAYED, "the token was used before")
        return proof

    def _key(self, token: str) -> PublicKey:
        header = _header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in list(Algorithm):
            names = " or ".join(Algorithm)
            raise InvalidTokenError(Refusal.ALGORITHM, f"the token is not signed with {names}")
        key = self.keys.find(kid) if isinstance(kid, str) else None
        if key is None:
            raise InvalidTokenError(Refusal.UNKNOWN_KEY, "no trusted key has signed the token")
        if key.algorithm != algorithm:
            raise InvalidTokenError(Refusal.ALGORITHM, "the token's key is for another algorithm")
        return key

    def _payload(self, token: str, key: PublicKey) -> Mapping[str, object]:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm.value],
                audience=self.audience,
                issuer=self.issuer,
                leeway=self.leeway,
                options={"require": list(CLAIMS), "strict_aud": True},
            )
        except jwt.InvalidTokenError as error:
            refusal = next(one for kind, one in _REFUSALS.items() if isinstance(error, kind))
            raise InvalidTokenError(refusal, _TEXTS.get(refusal) or str(error)) from None


# The special ones before the general ones.
_REFUSALS: Final[dict[type[Exception], Refusal]] = {
    jwt.InvalidSignatureError: Refusal.SIGNATURE,
    jwt.ExpiredSignatureError: Refusal.EXPIRED,
    jwt.ImmatureSignatureError: Refusal.NOT_YET_VALID,
    jwt.InvalidAudienceError: Refusal.AUDIENCE,
    jwt.InvalidIssuerError: Refusal.ISSUER,
    jwt.MissingRequiredClaimError: Refusal.CLAIMS,
    jwt.DecodeError: Refusal.MALFORMED,
    jwt.InvalidTokenError: Refusal.CLAIMS,
}
_TEXTS: Final = {
    Refusal.SIGNATURE: "the token was not signed by the key that it names, or was changed",
    Refusal.EXPIRED: "the token has expired",
    Refusal.NOT_YET_VALID: "the token is not valid yet: compare the clocks",
    Refusal.AUDIENCE: "the token is for another service",
    Refusal.ISSUER: "the token is from another issuer",
    Refusal.MALFORMED: "this is not a token",
}


def _header(token: str) -> Mapping[str, object]:
    if len(token) > LONGEST_TOKEN:
        raise InvalidTokenError(Refusal.MALFORMED, "this is not a token")
    try:
        return jwt.get_unverified_header(token)
    except jwt.InvalidTokenError:
        raise InvalidTokenError(Refusal.MALFORMED, "this is not a token") from None


def _proof(payload: Mapping[str, object]) -> Proof:
    """Build the proof; nothing but a payload whose signature was verified may get here."""
    subject, tenant, roles = payload["sub"], payload["tenant"], payload["roles"]
    if not isinstance(subject, str) or not _is_identity(subject):
        raise InvalidTokenError(Refusal.SUBJECT, "the token's subject is not a scheduler")
    if not isinstance(roles, list) or ROLE not in roles:
        raise InvalidTokenError(Refusal.SUBJECT, f"the token has not the role {ROLE}")
    if not isinstance(tenant, str) or not is_tenant_id(tenant):
        raise InvalidTokenError(Refusal.CLAIMS, "the token's tenant is not one")
    return Proof(
        actor=AuthenticatedActor(subject, ActorType.SCHEDULER, SOURCE, WITNESS),
        tenant=TenantId(tenant),
        execution=_execution(payload["execution"]),
        roles=tuple(map(str, roles)),
        token_id=_token_id(payload["jti"]),
        expires_at=_moment(payload["exp"]),
        owner=_owner(payload.get(OWNER)),
    )


def _is_identity(subject: str) -> bool:
    return subject.startswith(IDENTITY) and is_name(subject.removeprefix(IDENTITY))


def _owner(claim: object) -> Owner | None:
    if claim is None:
        return None
    if not isinstance(claim, str) or not is_owner(claim):
        raise InvalidTokenError(Refusal.CLAIMS, "the token's owner is not one")
    return Owner(claim)


def _token_id(claim: object) -> str:
    if not isinstance(claim, str) or not 1 <= len(claim) <= LONGEST_TOKEN_ID:
        raise InvalidTokenError(Refusal.CLAIMS, "the token's id is not one")
    return claim


def _moment(claim: object) -> datetime:
    # The library also takes what can be made a number of, such as text.
    if not isinstance(claim, int) or isinstance(claim, bool):
        raise InvalidTokenError(Refusal.CLAIMS, "the token's end is not a whole number of seconds")
    return datetime.fromtimestamp(claim, UTC)


def _execution(claim: object) -> UUID:
    try:
        return UUID(str(claim))
    except ValueError:
        raise InvalidTokenError(Refusal.CLAIMS, "the token's execution is not one") from None
