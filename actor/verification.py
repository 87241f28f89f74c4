"""Verification: the only way from a token to an authenticated actor.

A token is taken apart in this order, and refused at the first thing that is not as it should be:

1. its form and its header: an algorithm of ours, the name of a key;
2. the key of that name, among those that the receiver trusts; a key knows its own algorithm, and
   the token must say the same, so that no key is ever used in a way it was not made for;
3. the signature;
4. the claims: all are there; issuer and audience are the expected ones; the time is between `nbf`
   and `exp`, give or take the leeway; the subject is a scheduler's identity with its role;
5. the tenant and the role, if the receiver asks for them;
6. whether its attempt still runs, if the receiver asks the issuer (see `introspection`);
7. whether it was seen before, if the receiver keeps track of that.

Whoever gets a `Proof` knows who acts, for which tenant and in which execution. It holds no secret.
"""

import re
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
from tenantcron.actor.tokens import ATTEMPT, CLAIMS, DEADLINE, LEASE, OWNER, ROLE
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
_LEASE: Final = re.compile("[0-9a-f]{32}")


class TokenRefusal(StrEnum):
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
    INACTIVE = "inactive"
    REPLAYED = "replayed"


class InvalidTokenError(TenantcronError):
    """A token that proves nothing, and why; the text never holds the token."""

    def __init__(self, refusal: TokenRefusal, text: str) -> None:
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
    issued_at: datetime
    expires_at: datetime
    audience: str
    # Which attempt of the execution, the lease that it runs by, and when its time is up. Tokens of
    # earlier releases do not say.
    attempt: int | None = None
    lease: str | None = None
    deadline: datetime | None = None
    # On whose behalf the actor acts, as its platform says; they have proven nothing here.
    owner: Owner | None = None


class ActiveTokens(Protocol):
    """Knows whether the attempts that tokens are of still run."""

    def is_active(self, token: str, proof: Proof) -> bool:
        """Whether it does; an error if that cannot be found out now."""


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
    # Asks the issuer whether the attempt still runs; see `introspection.Introspection`.
    introspection: ActiveTokens | None = None
    # A role that the token must have, such as `service:billing`; None: any scheduler may call.
    role: str | None = None

    def __post_init__(self) -> None:
        # An empty one would be compared with nothing.
        if not self.issuer or not self.audience:
            raise ValueError("name the issuer, and the audience that this service is")
        if not timedelta(0) <= self.leeway <= LONGEST_LEEWAY:
            raise ValueError(f"a leeway is 0 to {LONGEST_LEEWAY.seconds} seconds")

    def verify(
        self, token: str, *, tenant: str | None = None, now: datetime | None = None
    ) -> Proof:
        """Return what the token proves, an InvalidTokenError if it is nothing.

        With a tenant, the token must be of that one; without, the proof says whose it is.
        """
        payload = self._payload(token, self._key(token))
        proof = _proof(payload)
        self._refuse_untimely(proof, _moment(payload["nbf"], "nbf"), now or datetime.now(UTC))
        if tenant is not None and proof.tenant != tenant:
            raise InvalidTokenError(TokenRefusal.TENANT, "the token is another tenant's")
        if self.role is not None and self.role not in proof.roles:
            raise InvalidTokenError(TokenRefusal.ROLE, f"the token lacks the role {self.role}")
        if self.introspection is not None and not self.introspection.is_active(token, proof):
            raise InvalidTokenError(TokenRefusal.INACTIVE, "the token's attempt has ended")
        if self.seen is not None and not self.seen.is_new(proof.token_id, proof.expires_at):
            raise InvalidTokenError(TokenRefusal.REPLAYED, "the token was used before")
        return proof

    def _key(self, token: str) -> PublicKey:
        header = _header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in list(Algorithm):
            names = " or ".join(Algorithm)
            raise InvalidTokenError(TokenRefusal.ALGORITHM, f"the token is not signed with {names}")
        key = self.keys.find(kid) if isinstance(kid, str) else None
        if key is None:
            raise InvalidTokenError(TokenRefusal.UNKNOWN_KEY, "no trusted key has signed the token")
        if key.algorithm != algorithm:
            raise InvalidTokenError(
                TokenRefusal.ALGORITHM, "the token's key is for another algorithm"
            )
        return key

    def _payload(self, token: str, key: PublicKey) -> Mapping[str, object]:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm.value],
                audience=self.audience,
                issuer=self.issuer,
                options={"require": list(CLAIMS), "strict_aud": True, **_TIMES_ARE_OURS},
            )
        except jwt.InvalidTokenError as error:
            refusal = next(one for kind, one in _REFUSALS.items() if isinstance(error, kind))
            raise InvalidTokenError(refusal, _TEXTS.get(refusal) or str(error)) from None

    def _refuse_untimely(self, proof: Proof, valid_from: datetime, now: datetime) -> None:
        if proof.expires_at + self.leeway <= now:
            raise InvalidTokenError(TokenRefusal.EXPIRED, "the token has expired")
        if max(valid_from, proof.issued_at) - self.leeway > now:
            text = "the token is not valid yet: compare the clocks"
            raise InvalidTokenError(TokenRefusal.NOT_YET_VALID, text)


def verify_own(token: str, keys: KeySet, issuer: str) -> Proof:
    """Return what a token of this issuer proves, as of when it was issued, for any audience.

    For the issuer only, which compares the time with the database's clock. A receiver names its
    audience with a `Verifier`.
    """
    claims = _unverified(token)
    audience, issued_at = claims.get("aud"), claims.get("iat")
    if not isinstance(audience, str) or not audience:
        raise InvalidTokenError(TokenRefusal.AUDIENCE, "the token has not exactly one audience")
    verifier = Verifier(keys=keys, issuer=issuer, audience=audience)
    return verifier.verify(token, now=_moment(issued_at, "iat"))


# The library would take this machine's clock, and accept texts as numbers.
_TIMES_ARE_OURS: Final[jwt.types.Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}
# The special ones before the general ones.
_REFUSALS: Final[dict[type[Exception], TokenRefusal]] = {
    jwt.InvalidSignatureError: TokenRefusal.SIGNATURE,
    jwt.InvalidAudienceError: TokenRefusal.AUDIENCE,
    jwt.InvalidIssuerError: TokenRefusal.ISSUER,
    jwt.MissingRequiredClaimError: TokenRefusal.CLAIMS,
    jwt.DecodeError: TokenRefusal.MALFORMED,
    jwt.InvalidTokenError: TokenRefusal.CLAIMS,
}
_TEXTS: Final = {
    TokenRefusal.SIGNATURE: "the token was not signed by the key that it names, or was changed",
    TokenRefusal.AUDIENCE: "the token is for another service",
    TokenRefusal.ISSUER: "the token is from another issuer",
    TokenRefusal.MALFORMED: "this is not a token",
}


def _unverified(token: str) -> Mapping[str, object]:
    _header(token)
    try:
        return jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        raise InvalidTokenError(TokenRefusal.MALFORMED, "this is not a token") from None


def key_id(token: str) -> str | None:
    """Return which key a token says that it was signed with; nothing of it is proven."""
    kid = _header(token).get("kid")
    return kid if isinstance(kid, str) else None


def _header(token: str) -> Mapping[str, object]:
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise InvalidTokenError(TokenRefusal.MALFORMED, "this is not a token")
    try:
        return jwt.get_unverified_header(token)
    except jwt.InvalidTokenError:
        raise InvalidTokenError(TokenRefusal.MALFORMED, "this is not a token") from None


def _proof(payload: Mapping[str, object]) -> Proof:
    """Build the proof; nothing but a payload whose signature was verified may get here."""
    subject, tenant, roles = payload["sub"], payload["tenant"], payload["roles"]
    if not isinstance(subject, str) or not _is_identity(subject):
        raise InvalidTokenError(TokenRefusal.SUBJECT, "the token's subject is not a scheduler")
    if not isinstance(roles, list) or ROLE not in roles:
        raise InvalidTokenError(TokenRefusal.SUBJECT, f"the token has not the role {ROLE}")
    if not isinstance(tenant, str) or not is_tenant_id(tenant):
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's tenant is not one")
    return Proof(
        actor=AuthenticatedActor(subject, ActorType.SCHEDULER, SOURCE, WITNESS),
        tenant=TenantId(tenant),
        execution=_execution(payload["execution"]),
        roles=tuple(map(str, roles)),
        token_id=_token_id(payload["jti"]),
        issued_at=_moment(payload["iat"], "iat"),
        expires_at=_moment(payload["exp"], "exp"),
        audience=str(payload["aud"]),
        attempt=_attempt(payload.get(ATTEMPT)),
        lease=_lease(payload.get(LEASE)),
        deadline=None if DEADLINE not in payload else _moment(payload[DEADLINE], DEADLINE),
        owner=_owner(payload.get(OWNER)),
    )


def _is_identity(subject: str) -> bool:
    return subject.startswith(IDENTITY) and is_name(subject.removeprefix(IDENTITY))


def _owner(claim: object) -> Owner | None:
    if claim is None:
        return None
    if not isinstance(claim, str) or not is_owner(claim):
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's owner is not one")
    return Owner(claim)


def _token_id(claim: object) -> str:
    if not isinstance(claim, str) or not 1 <= len(claim) <= LONGEST_TOKEN_ID:
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's id is not one")
    return claim


def _moment(claim: object, name: str) -> datetime:
    if not isinstance(claim, int) or isinstance(claim, bool):
        raise InvalidTokenError(
            TokenRefusal.CLAIMS, f"the token's {name} is not a number of seconds"
        )
    try:
        return datetime.fromtimestamp(claim, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidTokenError(
            TokenRefusal.CLAIMS, f"the token's {name} is out of range"
        ) from None


def _attempt(claim: object) -> int | None:
    if claim is not None and (not isinstance(claim, int) or isinstance(claim, bool) or claim < 1):
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's attempt is not a number from 1")
    return claim


def _lease(claim: object) -> str | None:
    if claim is not None and (not isinstance(claim, str) or _LEASE.fullmatch(claim) is None):
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's lease is not one")
    return claim


def _execution(claim: object) -> UUID:
    try:
        return UUID(str(claim))
    except ValueError:
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's execution is not one") from None
