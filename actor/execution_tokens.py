"""Execution tokens: their claims and their signature.

A token authenticates an execution of one tenant to one service. It is valid for minutes, and at
most until a minute after the deadline of its attempt. It contains a digest of the attempt's lease,
so the issuer can check in the database whether the attempt is still running.
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
# After the deadline: a service that was called at the last moment may still verify the token.
SLACK: Final = timedelta(minutes=1)
# The audience of tokens for reports on an attempt, which only the API accepts.
CALLBACKS: Final = "tenantcron:callbacks"
# The required claims of every token.
CLAIMS: Final = (
    "iss", "sub", "aud", "tenant", "roles", "execution", "jti", "iat", "nbf", "exp",
)  # fmt: skip
# The owner of the schedule, if it has one. Not `act` (RFC 8693), whose `sub` would be the owner: a
# service that reads only the subject would mistake the scheduler for the owner.
OWNER: Final = "owner"
# The attempt; tokens of earlier releases lack these claims.
ATTEMPT, LEASE, DEADLINE = "attempt", "lease", "deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a token; `deadline` is that of the attempt."""

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
    # Roles that the policy grants to the service of the scheduler, in addition to `ROLE`.
    roles: tuple[str, ...] = ()

    @property
    def expires_at(self) -> datetime:
        """When the token expires."""
        return min(self.now + self.lifetime, self.deadline + SLACK)


def lease_digest(execution: UUID, lease_token: UUID) -> str:
    """Return the digest of a lease that a token contains.

    All executions of one claim have the same lease token, including those of other tenants. The
    digest differs for each execution and does not reveal the lease token.
    """
    return sha256(execution.bytes + lease_token.bytes).hexdigest()[:32]


def sign(claims: Claims, key: SigningKey) -> str:
    """Return a signed token with these claims and a unique id."""
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
