"""The permissions of each role; docs/api.md shows this table."""

from enum import StrEnum
from typing import Final

from tenantcron.actor.grants import Grant, Role


class Permission(StrEnum):
    """A set of operations of the API."""

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
    # Only the platform manages tenants, so a caller that is restricted to a tenant may not.
    if permission is Permission.MANAGE and grant.tenant is not None:
        return False
    return permission in ALLOWED[grant.role]
