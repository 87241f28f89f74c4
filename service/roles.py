"""The permissions of each role; docs/api.md shows this table."""

from enum import StrEnum
from typing import Final

from tenantcron.actor.grants import Grant, Role


class Permission(StrEnum):
    """A set of operations of the API."""

    READ = "read"
    READ_TASKS = "read_tasks"
    PLAN = "plan"
    # Submit tasks, and cancel them.
    SUBMIT = "submit"
    OPERATE = "operate"
    APPLY = "apply"
    MANAGE = "manage"


_VIEWER = frozenset({Permission.READ, Permission.READ_TASKS, Permission.PLAN})
ALLOWED: Final = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _VIEWER | {Permission.SUBMIT, Permission.OPERATE},
    Role.DEPLOYER: _VIEWER | {Permission.APPLY},
    Role.ADMIN: frozenset(Permission),
    Role.SUBMITTER: frozenset({Permission.READ_TASKS, Permission.SUBMIT}),
}


def covers(grant: Grant, other: Grant) -> bool:
    """Whether a grant includes everything that another one allows."""
    sees_all = grant.tenant in (None, other.tenant)
    allowed = {permission for permission in Permission if may(grant, permission)}
    return sees_all and all(p in allowed for p in Permission if may(other, p))


def may(grant: Grant, permission: Permission) -> bool:
    """Whether a grant includes a permission."""
    # Only the platform manages tenants, so a caller that is restricted to a tenant may not.
    if permission is Permission.MANAGE and grant.tenant is not None:
        return False
    return permission in ALLOWED[grant.role]
