"""Audit records of a tenant may be deleted once they are 30 days old."""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import for_schema, run_script

revision = "0002_audit_retention"
down_revision = "0001_initial"

_CREATE = """
CREATE OR REPLACE TRIGGER audit_record_append_only
    BEFORE UPDATE OR TRUNCATE ON {schema}.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
CREATE TRIGGER audit_record_kept
    BEFORE DELETE ON {schema}.audit_record
    FOR EACH ROW EXECUTE FUNCTION tenantcron.refuse_early_delete();
ALTER TABLE {schema}.audit_record
    ENABLE ALWAYS TRIGGER audit_record_append_only, ENABLE ALWAYS TRIGGER audit_record_kept;
"""
_DROP = """
DROP TRIGGER audit_record_kept ON {schema}.audit_record;
CREATE OR REPLACE TRIGGER audit_record_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
ALTER TABLE {schema}.audit_record ENABLE ALWAYS TRIGGER audit_record_append_only;
"""


def upgrade(op: Operations, schema: str) -> None:
    """Let old records go."""
    run_script(op.get_bind(), for_schema(_CREATE, schema))


def downgrade(op: Operations, schema: str) -> None:
    """Keep all records again."""
    run_script(op.get_bind(), for_schema(_DROP, schema))
