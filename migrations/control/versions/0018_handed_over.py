"""Attempts that were handed over to a remote worker, with its heartbeats and its progress.

The release before ignores the columns: it ends an attempt without heartbeats as lost. It also
retries an execution at once whose work at a target is being stopped.
"""

from alembic.operations import Operations

revision = "0018_handed_over"
down_revision = "0017_event_bus"

_COLUMNS = {
    "handed_over_attempt": "integer",
    "handed_over_lease": "varchar(32)",
    "handed_over_at": "timestamptz",
    "heartbeat_every": "interval",
    "heartbeat_at": "timestamptz",
    "attempt_deadline": "timestamptz",
    "reported_attempt": "integer",
    "progress": "smallint",
    "progress_text": "varchar(200)",
    "delivery": "varchar(64)",
    "stopping_until": "timestamptz",
}


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the columns; the partitions follow."""
    added = ", ".join(f"ADD {name} {kind}" for name, kind in _COLUMNS.items())
    op.execute(f"ALTER TABLE tenantcron.execution {added}")


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Remove them again."""
    dropped = ", ".join(f"DROP {name}" for name in _COLUMNS)
    op.execute(f"ALTER TABLE tenantcron.execution {dropped}")
