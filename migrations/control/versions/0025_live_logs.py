"""Log lines of attempts, which replicas store while the attempts run.

Replicas of the release before do not write the table: the logs of their attempts are stored when
the attempts end.

Locks: none on existing tables.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0025_live_logs"
down_revision = "0024_submitters"

_CREATED = ("live_logs/table", "live_logs/api_role")
# The role's function as it was before.
_RESTORED = ("quotas/api_role", "live_logs/undo")


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the table."""
    for name in _CREATED:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop it."""
    for name in _RESTORED:
        run_script(op.get_bind(), _script(name))


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
