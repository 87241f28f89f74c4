"""Verification: the only way from an execution token to an authenticated actor.

A token is checked in this order and rejected at the first failed check:

1. the form and the header: a supported algorithm, and a key id;
2. the key with that id, among the keys that the receiver trusts; the algorithm of the token must be
   the algorithm of the key, so that a key is never used with another algorithm;
3. the signature;
4. the claims: all required ones are present; issuer and audience match; the time is between `nbf`
   and `exp`, plus or minus the leeway; the subject is a scheduler's identity with its role;
5. the tenant and the role, if the receiver requires them;
6. whether the attempt is still running, if the receiver asks the issuer (see `introspection`);
7. whether the token was used before, if the receiver keeps track of that.

The resulting `Proof` identifies the actor, the tenant and the execution. It contains no secret.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

import jwt

from tenantcron.actor.execution_tokens import ATTEMPT, CLAIMS, DEADLINE, LEASE, OWNER, ROLE
from tenantcron.actor.key_sets import KeySet
from tenantcron.actor.keys import Algorithm, PublicKey
from tenantcron.actor.model import ActorType, AuthenticatedActor
from tenantcron.actor.witness import WITNESS
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner, TenantId, is_name, is_owner, is_tenant_id

SOURCE: Final = "token"
IDENTITY: Final = "system:scheduler:"
LEEWAY: Final = timedelta(seconds=10)
LONGEST_LEEWAY: Final = timedelta(minutes=1)
# Our tokens have less than a kilobyte; longer texts are rejected without parsing them.
LONGEST_TOKEN: Final = 8 * 1024
LONGEST_TOKEN_ID: Final = 255
_LEASE: Final = re.compile("[0-9a-f]{32}")
# Between header, claims and signature.
_DOTS: Final = 2


class TokenRefusal(StrEnum):
    """Why a token is rejected."""

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
    """The token is invalid, and why; the text never contains the token."""

    def __init__(self, refusal: TokenRefusal, text: str) -> None:
        super().__init__(text)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Proof:
    """The verified content of a token."""

    actor: AuthenticatedActor
    tenant: TenantId
    execution: UUID
    roles: tuple[str, ...]
    token_id: str
    issued_at: datetime
    expires_at: datetime
    audience: str
    # The attempt, the digest of its lease, and its deadline. Tokens of earlier releases lack them.
    attempt: int | None = None
    lease: str | None = None
    deadline: datetime | None = None
    # The owner on whose behalf the actor acts, according to the platform; not authenticated here.
    owner: Owner | None = None


class ActiveTokens(Protocol):
    """Knows whether the attempt of a token is still running."""

    def is_active(self, token: str, proof: Proof) -> bool:
        """Whether the attempt is still running; raise an error if that is unknown."""


class SeenTokens(Protocol):
    """Remembers tokens, for receivers that accept each token only once."""

    def is_new(self, token_id: str, expires_at: datetime) -> bool:
        """Whether the token is used for the first time; remember it until it expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Verifies tokens of one issuer for one audience, this service."""

    keys: KeySet
    issuer: str
    audience: str
    leeway: timedelta = LEEWAY
    seen: SeenTokens | None = None
    # Asks the issuer whether the attempt is still running; see `introspection.Introspection`.
    introspection: ActiveTokens | None = None
    # A role that the token must have, such as `service:billing`; None: any scheduler may call.
    role: str | None = None

    def __post_init__(self) -> None:
        # PyJWT does not check an empty issuer or audience.
        if not self.issuer or not self.audience:
            raise ValueError("set the issuer, and the audience of this service")
        if not timedelta(0) <= self.leeway <= LONGEST_LEEWAY:
            raise ValueError(f"a leeway is 0 to {LONGEST_LEEWAY.seconds} seconds")

    def verify(
        self, token: str, *, tenant: str | None = None, now: datetime | None = None
    ) -> Proof:
        """Return the verified content; raise an InvalidTokenError if the token is invalid.

        If a tenant is given, the token must belong to it.
        """
        proof, valid_from = _signed(token, self.keys, self.issuer, self.audience)
        _check_times(proof, valid_from, now or datetime.now(UTC), self.leeway)
        if tenant is not None and proof.tenant != tenant:
            raise InvalidTokenError(TokenRefusal.TENANT, "the token belongs to another tenant")
        if self.role is not None and self.role not in proof.roles:
            raise InvalidTokenError(TokenRefusal.ROLE, f"the token lacks the role {self.role}")
        if self.introspection is not None and not self.introspection.is_active(token, proof):
            raise InvalidTokenError(TokenRefusal.INACTIVE, "the token's attempt has ended")
        if self.seen is not None and not self.seen.is_new(proof.token_id, proof.expires_at):
            raise InvalidTokenError(TokenRefusal.REPLAYED, "the token was used before")
        return proof


def verify_own(token: str, keys: KeySet, issuer: str) -> Proof:
    """Verify a token of this issuer as of the time it was issued, for any audience.

    Only for the issuer, which compares the times with the database's clock. A receiver uses a
    `Verifier` with its audience.
    """
    proof, valid_from = _signed(token, keys, issuer, audience=None)
    _check_times(proof, valid_from, proof.issued_at, LEEWAY)
    return proof


def _signed(token: str, keys: KeySet, issuer: str, audience: str | None) -> tuple[Proof, datetime]:
    """Return the content of a token with a valid signature, and from when it is valid."""
    payload = _payload(token, keys, issuer, audience)
    return _proof(payload), _moment(payload["nbf"], "nbf")


def _payload(token: str, keys: KeySet, issuer: str, audience: str | None) -> Mapping[str, object]:
    """Return the claims after the signature; with None, any single audience is accepted."""
    key = _key(token, keys)
    try:
        payload: Mapping[str, object] = jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm.value],
            audience=audience,
            issuer=issuer,
            options={
                "require": list(CLAIMS),
                "verify_aud": audience is not None,
                "strict_aud": True,
                **_TIMES_ARE_OURS,
            },
        )
    except jwt.InvalidTokenError as error:
        refusal = next(_REFUSALS[kind] for kind in _REFUSALS if isinstance(error, kind))
        raise InvalidTokenError(refusal, _TEXTS.get(refusal) or str(error)) from None
    if not isinstance(payload["aud"], str) or not payload["aud"]:
        raise InvalidTokenError(TokenRefusal.AUDIENCE, "the token must have exactly one audience")
    return payload


def _key(token: str, keys: KeySet) -> PublicKey:
    header = _header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in list(Algorithm):
        names = " or ".join(Algorithm)
        raise InvalidTokenError(TokenRefusal.ALGORITHM, f"the token is not signed with {names}")
    key = keys.find(kid) if isinstance(kid, str) else None
    if key is None:
        raise InvalidTokenError(TokenRefusal.UNKNOWN_KEY, "no trusted key has signed the token")
    if key.algorithm != algorithm:
        raise InvalidTokenError(TokenRefusal.ALGORITHM, "the token's key is for another algorithm")
    return key


def _check_times(proof: Proof, valid_from: datetime, now: datetime, leeway: timedelta) -> None:
    if proof.expires_at + leeway <= now:
        raise InvalidTokenError(TokenRefusal.EXPIRED, "the token has expired")
    if max(valid_from, proof.issued_at) - leeway > now:
        text = "the token is not valid yet: compare the clocks"
        raise InvalidTokenError(TokenRefusal.NOT_YET_VALID, text)


# PyJWT would use this machine's clock and accept text as a number.
_TIMES_ARE_OURS: Final[jwt.types.Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}
# Subclasses before their base classes.
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


def key_id(token: str) -> str | None:
    """Return the key id in the header of a token, which is not verified."""
    kid = _header(token).get("kid")
    return kid if isinstance(kid, str) else None


def _header(token: str) -> Mapping[str, object]:
    """Return the header, to choose the key. PyJWT parses the token again when it verifies it.

    PyJWT would decode all parts of the token here, which takes as long as the signature itself.
    """
    if len(token) > LONGEST_TOKEN or not token.isascii() or token.count(".") != _DOTS:
        raise _malformed()
    part = token.partition(".")[0]
    try:
        header = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise _malformed() from None
    # No extension is supported, so none may be demanded.
    if not isinstance(header, dict) or "crit" in header:
        raise _malformed()
    return header


def _malformed() -> InvalidTokenError:
    return InvalidTokenError(TokenRefusal.MALFORMED, "this is not a token")


def _proof(payload: Mapping[str, object]) -> Proof:
    """Build the proof from a payload whose signature has been verified."""
    subject, tenant, roles = payload["sub"], payload["tenant"], payload["roles"]
    if not isinstance(subject, str) or not _is_identity(subject):
        raise InvalidTokenError(TokenRefusal.SUBJECT, "the token's subject is not a scheduler")
    if not isinstance(roles, list) or ROLE not in roles:
        raise InvalidTokenError(TokenRefusal.SUBJECT, f"the token lacks the role {ROLE}")
    if not isinstance(tenant, str) or not is_tenant_id(tenant):
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's tenant is invalid")
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
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's owner is invalid")
    return Owner(claim)


def _token_id(claim: object) -> str:
    if not isinstance(claim, str) or not 1 <= len(claim) <= LONGEST_TOKEN_ID:
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's id is invalid")
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
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's lease is invalid")
    return claim


def _execution(claim: object) -> UUID:
    try:
        return UUID(str(claim))
    except ValueError:
        raise InvalidTokenError(TokenRefusal.CLAIMS, "the token's execution is invalid") from None
