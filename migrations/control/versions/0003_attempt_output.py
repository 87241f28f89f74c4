"""Attempts keep the end of their log and what their handler returned."""

from alembic.operations import Operations

revision = "0003_attempt_output"
down_revision = "0002_losses"


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the columns; the partitions follow."""
    op.execute("ALTER TABLE tenantcron.execution_attempt ADD log text, ADD result jsonb")


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Remove them again."""
    op.execute("ALTER TABLE tenantcron.execution_attempt DROP log, DROP result")
