"""Hosts with a rate limit: until when their calls are spent, and whose turn was last.

Replicas of the release before do not know the limits of hosts. They start what they have fired.
"""

from alembic.operations import Operations

revision = "0020_rate_limits"
down_revision = "0019_schedule_changes"

_TABLE = """
CREATE TABLE tenantcron.rate_limit (
    host varchar(120) NOT NULL,
    kind varchar(128) NOT NULL,
    spent_until timestamptz NOT NULL,
    last_tenant varchar(48) NOT NULL,
    turn_calls integer NOT NULL,
    CONSTRAINT rate_limit_pkey PRIMARY KEY (host, kind)
)
"""
# Without limits, requirements have no host.
_LIFT = """
UPDATE tenantcron.execution SET requires = split_part(requires, ':', 1)
WHERE
    state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')
    AND requires LIKE '%:%' AND requires NOT LIKE 'saga:%'
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the table."""
    op.execute(_TABLE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop it; pending executions start without a limit."""
    op.execute(_LIFT)
    op.execute("DROP TABLE tenantcron.rate_limit")
