"""Requirements: what an execution needs of the replica that runs it, and what replicas can run.

The release before neither reads nor writes the columns and the table. What it fires has no
requirement; a claim of this release decides it. A replica of it claims everything, as ever, along
the index `execution_waiting_idx`, which therefore stays as long as there are such replicas.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0009_requirements"
down_revision = "0008_tenant_source"

# Without defaults, so that no row is rewritten. The predicate of the index is not that of
# `execution_waiting_idx`: the statements of each release can use their own index only.
_CREATE = """
ALTER TABLE tenantcron.execution ADD COLUMN requires varchar(136);
ALTER TABLE tenantcron.worker
    ADD COLUMN capabilities text[],
    ADD COLUMN wants text[],
    ADD COLUMN wants_at timestamptz;
CREATE INDEX execution_runnable_idx
    ON tenantcron.execution_live (requires, tenant_id, priority, not_before)
    WITH (deduplicate_items = off)
    WHERE state <> 'RUNNING';
CREATE TABLE tenantcron.capability (
    name varchar(136) NOT NULL,
    named_at timestamptz NOT NULL,
    CONSTRAINT capability_pkey PRIMARY KEY (name)
);
"""
_DROP = """
DROP TABLE tenantcron.capability;
DROP INDEX tenantcron.execution_runnable_idx;
ALTER TABLE tenantcron.worker
    DROP COLUMN capabilities, DROP COLUMN wants, DROP COLUMN wants_at;
ALTER TABLE tenantcron.execution DROP COLUMN requires;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the columns, the index and the table."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them."""
    run_script(op.get_bind(), _DROP)
