"""Execution tokens: what they say, and how they are signed.

A token proves to one service that an execution of one tenant calls it. It lives for minutes, and
never longer than a minute after the deadline of its attempt. It names the lease that the attempt
runs by: with the database at hand, a token of an attempt that is over can be told from a live one.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4

import jwt

from tenantcron.actor.keys import SigningKey
from tenantcron.core.names import Owner, TenantId

ROLE: Final = "service"
# After the attempt's time is up: what it called at the last moment may still be looking.
SLACK: Final = timedelta(minutes=1)
# All of them are required; a token without one of them proves less than it seems to.
CLAIMS: Final = (
    "iss", "sub", "aud", "tenant", "roles", "execution", "jti", "iat", "nbf", "exp",
)  # fmt: skip
# On whose behalf, where there is somebody. Not `act` (RFC 8693), whose `sub` would be the owner:
# who looks at the subject alone would take the scheduler for them.
OWNER: Final = "owner"
# Which attempt; schedulers of earlier releases leave these out.
ATTEMPT, LEASE, DEADLINE = "attempt", "lease", "deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token is to say; `deadline` is when the attempt's time is up."""

    issuer: str
    subject: str
    audience: str
    tenant: TenantId
    execution: UUID
    attempt: int
    # See `lease_digest`.
    lease: str
    now: datetime
    deadline: datetime
    lifetime: timedelta
    owner: Owner | None = None
    # What the policy gives the service that runs the execution, besides `ROLE`.
    roles: tuple[str, ...] = ()

    @property
    def expires_at(self) -> datetime:
        """When the token ends."""
        return min(self.now + self.lifetime, self.deadline + SLACK)


def lease_digest(execution: UUID, lease_token: UUID) -> str:
    """Return what a token says of its lease.

    All executions of one claim have the same lease token, those of other tenants included. The
    digest differs for each, and does not reveal it.
    """
    return sha256(execution.bytes + lease_token.bytes).hexdigest()[:32]


def sign(claims: Claims, key: SigningKey) -> str:
    """Return a token that says so, with an id that no other token has."""
    issued_at = int(claims.now.timestamp())
    payload: dict[str, object] = {
        "iss": claims.issuer,
        "sub": claims.subject,
        "aud": claims.audience,
        "tenant": claims.tenant,
        "roles": [ROLE, *claims.roles],
        "execution": str(claims.execution),
        "jti": str(uuid4()),
        "iat": issued_at,
        "nbf": issued_at,
        "exp": int(claims.expires_at.timestamp()),
        ATTEMPT: claims.attempt,
        LEASE: claims.lease,
        DEADLINE: int(claims.deadline.timestamp()),
    }
    if claims.owner is not None:
        payload[OWNER] = claims.owner
    public = key.public
    return jwt.encode(payload, key.private, public.algorithm.value, headers={"kid": public.kid})
