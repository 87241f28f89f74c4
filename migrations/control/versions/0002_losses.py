"""Losses of executions: how often a worker was lost with one, and how far it is suspected.

The release before this one neither reads nor writes the two columns. While both run, an execution
that it finishes or retries keeps its suspicion, which only makes it wait for its turn.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0002_losses"
down_revision = "0001_initial"

# Constant defaults: Postgres notes them in the catalog and rewrites no row.
_ADD = """
ALTER TABLE tenantcron.execution
    ADD COLUMN losses integer NOT NULL DEFAULT 0,
    ADD COLUMN suspicion integer NOT NULL DEFAULT 0
"""
_DROP = "ALTER TABLE tenantcron.execution DROP COLUMN losses, DROP COLUMN suspicion"


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the two columns to the table and all its partitions."""
    run_script(op.get_bind(), _ADD)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them."""
    run_script(op.get_bind(), _DROP)
