"""A tenant's schema as it began: its schedules and their audit."""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import for_schema, run_script

revision = "0001_initial"
down_revision = None

_TABLES = """
CREATE TABLE {schema}.audit_record (
    entity_type varchar(32) NOT NULL,
    entity_id varchar(255) NOT NULL,
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    operation varchar(32) NOT NULL,
    changed_by varchar(255) NOT NULL,
    actor_type varchar(32) NOT NULL,
    actor_source varchar(64) NOT NULL,
    authenticated boolean NOT NULL,
    correlation_id uuid,
    before jsonb,
    after jsonb,
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT audit_record_pkey PRIMARY KEY (entity_type, entity_id, id)
);
CREATE TABLE {schema}.tenant_schedule (
    id uuid NOT NULL,
    schedule_name varchar(128) NOT NULL,
    saga_name varchar(128) NOT NULL,
    cron_expr varchar(64) NOT NULL,
    timezone varchar(64) NOT NULL,
    enabled boolean NOT NULL DEFAULT false,
    manifest_version_id uuid NOT NULL,
    definition jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    effective_from timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tenant_schedule_definition_check CHECK (jsonb_typeof(definition) = 'object'),
    CONSTRAINT tenant_schedule_pkey PRIMARY KEY (id),
    CONSTRAINT tenant_schedule_schedule_name_key UNIQUE (schedule_name)
);
CREATE INDEX tenant_schedule_enabled_idx
    ON {schema}.tenant_schedule (schedule_name)
    WHERE enabled;
"""

_APPEND_ONLY = """
CREATE TRIGGER audit_record_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
ALTER TABLE {schema}.audit_record ENABLE ALWAYS TRIGGER audit_record_append_only;
"""

_RECORDING = """
CREATE TRIGGER tenant_schedule_created
    AFTER INSERT ON {schema}.tenant_schedule
    REFERENCING NEW TABLE AS becomes
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_updated
    AFTER UPDATE ON {schema}.tenant_schedule
    REFERENCING OLD TABLE AS was NEW TABLE AS becomes
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_deleted
    AFTER DELETE ON {schema}.tenant_schedule
    REFERENCING OLD TABLE AS was
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_no_truncate
    BEFORE TRUNCATE ON {schema}.tenant_schedule
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_truncate();
"""

# What the API's role sees of it (docs/decisions/0017).
_SEEN = """
ALTER TABLE {schema}.tenant_schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.tenant_schedule USING (tenantcron.sees_schema({name}));
ALTER TABLE {schema}.audit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.audit_record USING (tenantcron.sees_schema({name}));
SELECT tenantcron.open_to_api({name});
"""

_UNDO = "DROP TABLE {schema}.tenant_schedule, {schema}.audit_record"


def upgrade(op: Operations, schema: str) -> None:
    """Create the tables, and what writes the audit and keeps it append only."""
    run_script(op.get_bind(), for_schema(_TABLES + _APPEND_ONLY + _RECORDING + _SEEN, schema))


def downgrade(op: Operations, schema: str) -> None:
    """Drop everything."""
    run_script(op.get_bind(), for_schema(_UNDO, schema))
