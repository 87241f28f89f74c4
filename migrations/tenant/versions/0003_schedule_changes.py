"""The control schema gets the times of the tenant's older audit records.

It changes no object of the tenant. Newer records are added by the trigger that writes them.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import for_schema, run_script

revision = "0003_schedule_changes"
down_revision = "0002_audit_retention"

_ADD = """
INSERT INTO tenantcron.schedule_change (changed_at, tenant_id, changed_by)
    SELECT DISTINCT r.changed_at, t.id, r.changed_by
    FROM {schema}.audit_record AS r
    JOIN tenantcron.tenant AS t ON t.schema_name = {name}
    ON CONFLICT DO NOTHING;
"""


def upgrade(op: Operations, schema: str) -> None:
    """Add the times."""
    run_script(op.get_bind(), for_schema(_ADD, schema))


def downgrade(op: Operations, schema: str) -> None:
    """Keep the times: the migration of the control schema drops them."""
