"""What an authenticated caller may do in the API: a role, and the tenant it is bound to, if any."""

from dataclasses import dataclass
from enum import StrEnum

from tenantcron.actor.model import AuthenticatedActor
from tenantcron.core.names import TenantId


class Role(StrEnum):
    """The role of a caller; docs/api.md lists what each may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEPLOYER = "deployer"
    ADMIN = "admin"
    # It submits, reads and cancels tasks, and sees nothing else.
    SUBMITTER = "submitter"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for one tenant, or for all tenants if it is None."""

    role: Role
    tenant: TenantId | None


@dataclass(frozen=True, slots=True)
class AuthenticatedCaller:
    """An authenticated actor and what it may do."""

    actor: AuthenticatedActor
    grant: Grant


class MissingClaimError(Exception):
    """The token is valid, but a claim that grants access is missing."""

    def __init__(self, claim: str, add: str) -> None:
        super().__init__(f"the token has no claim `{claim}`: let its issuer add {add}")


class InvalidCredentialsError(Exception):
    """The credentials are invalid. The reason is for our logs, never for the caller."""
