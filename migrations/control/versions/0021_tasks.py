"""Tasks: one-time work that clients submit for a moment; and quotas of tenants.

Replicas of the release before do not fire tasks, and would end their executions as those of a
removed schedule. So no task is fired while such a replica runs (`has_former_replica`).

Locks: SHARE on `execution_live` while an index is built that is empty at first; ACCESS EXCLUSIVE on
`tenant` and `limits`, for a moment: no row is read or written.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0021_tasks"
down_revision = "0020_rate_limits"

_CREATED = ("tasks/tables", "tasks/api_role")
# The role's function as it was before.
_RESTORED = ("event_bus/api_role", "tasks/undo")


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the table."""
    for name in _CREATED:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them with all tasks; the executions of tasks stay."""
    for name in _RESTORED:
        run_script(op.get_bind(), _script(name))


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
