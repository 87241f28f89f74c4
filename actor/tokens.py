"""Execution tokens: what they say, and how they are signed.

A token proves to one service that an execution of one tenant calls it. It lives for as long as the
execution's attempt may, and a minute; there is nothing to renew and nothing to revoke.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token is to say; `until` is when the attempt's time is up."""

    issuer: str
    subject: str
    audience: str
    tenant: TenantId
    execution: UUID
    now: datetime
    until: datetime
    owner: Owner | None = None
    # What the policy gives the service that runs the execution, besides `ROLE`.
    roles: tuple[str, ...] = ()


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
        "exp": int((claims.until + SLACK).timestamp()),
    }
    if claims.owner is not None:
        payload[OWNER] = claims.owner
    public = key.public
    return jwt.encode(payload, key.private, public.algorithm.value, headers={"kid": public.kid})
