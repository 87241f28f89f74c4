"""An index of each tenant's dead executions, which people look for first.

Without it the dead of one tenant were sought among the dead of all, or through the tenant's
history. Only an execution that ends DEAD is written to it. Building it reads the history once, and
nothing can end meanwhile: some seconds for ten million rows.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0004_dead_of_tenant"
down_revision = "0003_attempt_output"

_CREATE = """
CREATE INDEX execution_tenant_dead_idx
    ON tenantcron.execution_past (tenant_id, scheduled_for, id) WHERE state = 'DEAD'
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the index on all months."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop it."""
    run_script(op.get_bind(), "DROP INDEX tenantcron.execution_tenant_dead_idx")
