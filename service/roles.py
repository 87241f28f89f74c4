"""What each role may do; docs/api.md shows this table."""

from enum import StrEnum
from typing import Final

from tenantcron.actor.grants import Grant, Role


class Permission(StrEnum):
    """A part of the API that somebody is trusted with."""

    READ = "read"
    PLAN = "plan"
    OPERATE = "operate"
    APPLY = "apply"
    MANAGE = "manage"


_VIEWER = frozenset({Permission.READ, Permission.PLAN})
ALLOWED: Final = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _VIEWER | {Permission.OPERATE},
    Role.DEPLOYER: _VIEWER | {Permission.APPLY},
    Role.ADMIN: frozenset(Permission),
}


def may(grant: Grant, permission: Permission) -> bool:
    """Whether a grant includes a permission."""
    # A tenant's life and its limits are the platform's, so nobody bound to a tenant decides them.
    if permission is Permission.MANAGE and grant.tenant is not None:
        return False
    return permission in ALLOWED[grant.role]
