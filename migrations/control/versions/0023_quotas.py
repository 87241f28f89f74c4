"""Quotas of tenants: those that the policy declares, and what they count; and submissions.

Replicas of the release before neither declare quotas nor count starts. Until all have this release,
the starts of a tenant can exceed its quota by theirs.

Locks: ACCESS EXCLUSIVE on `limits`, for a moment.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0023_quotas"
down_revision = "0022_shares"

_CREATED = ("quotas/tables", "quotas/submit", "quotas/api_role")


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add columns and tables, and the functions that submit tasks."""
    for name in _CREATED:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Remove them, and restore the role's function as it was before."""
    run_script(op.get_bind(), _script("tasks/api_role"))
    run_script(op.get_bind(), _script("quotas/undo"))


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
