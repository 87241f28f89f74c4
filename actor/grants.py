"""What a proven actor may do at the API: a role, and the tenant that it is bound to, if any."""

from dataclasses import dataclass
from enum import StrEnum

from tenantcron.actor.model import AuthenticatedActor
from tenantcron.core.names import TenantId


class Role(StrEnum):
    """What somebody is trusted with; docs/api.md has the table."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEPLOYER = "deployer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, for one tenant or, with None, for all of them."""

    role: Role
    tenant: TenantId | None


@dataclass(frozen=True, slots=True)
class Proven:
    """Somebody who has proven who they are, and what they may do."""

    actor: AuthenticatedActor
    grant: Grant


class MissingClaimError(Exception):
    """The token proves who presents it, but a claim that grants access is missing."""

    def __init__(self, claim: str, add: str) -> None:
        super().__init__(f"the token has no claim `{claim}`: let its issuer add {add}")


class NotProvenError(Exception):
    """What was presented proves nothing. Why is for our logs, never for who presented it."""
