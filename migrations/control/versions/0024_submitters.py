"""The role `submitter` of API tokens, and submitted tasks in the view `metering`.

An API server of the release before does not know the role and rejects its tokens. Create such
tokens when all servers have this release.

Locks: ACCESS EXCLUSIVE on `api_token` for a moment, to read its few rows; and on the view.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0024_submitters"
down_revision = "0023_quotas"

_ROLES = """
ALTER TABLE tenantcron.api_token
    DROP CONSTRAINT api_token_role_check,
    ADD CONSTRAINT api_token_role_check CHECK (role IN ({roles}));
"""
_FORMER = "'viewer', 'operator', 'deployer', 'admin'"
# A submitter has no permission that the release before knows.
_DELETE = "DELETE FROM tenantcron.api_token WHERE role = 'submitter';"


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Allow the role, and count submissions."""
    run_script(op.get_bind(), _ROLES.format(roles=f"{_FORMER}, 'submitter'"))
    run_script(op.get_bind(), _script("metering"))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Delete tokens of submitters, and count executions only."""
    run_script(op.get_bind(), _DELETE + _ROLES.format(roles=_FORMER))
    run_script(op.get_bind(), _script("undo"))


def _script(name: str) -> str:
    return (Path(__file__).parent / "submitters" / f"{name}.sql").read_text(encoding="utf-8")
