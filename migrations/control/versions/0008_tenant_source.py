"""Labels of tenants, and the platform's registry as the source of tenants.

The release before this one neither reads nor writes the new columns and tables: its replicas claim
also while the source cannot be read, and its commands suspend tenants that the source manages.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0008_tenant_source"
down_revision = "0007_months_by_function"

# Constant defaults: Postgres notes them in the catalog and rewrites no row.
_CREATE = """
ALTER TABLE tenantcron.tenant
    ADD COLUMN labels jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN sourced boolean NOT NULL DEFAULT false,
    ADD COLUMN missing_since timestamptz;
-- Labels again, one row each, for lists. Row-level security keeps callers of the API from an index
-- on jsonb, because its operators are not leakproof; equality of text is.
CREATE TABLE tenantcron.tenant_label (
    tenant_id varchar(48) NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    CONSTRAINT tenant_label_pkey PRIMARY KEY (tenant_id, key),
    CONSTRAINT tenant_label_tenant_id_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenantcron.tenant (id) ON DELETE CASCADE
);
CREATE INDEX tenant_label_key_value_tenant_id_idx
    ON tenantcron.tenant_label (key, value, tenant_id);
ALTER TABLE tenantcron.tenant_label ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.tenant_label USING (tenantcron.sees(tenant_id));
CREATE FUNCTION tenantcron.follow_labels() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    DELETE FROM tenantcron.tenant_label WHERE tenant_id = NEW.id;
    INSERT INTO tenantcron.tenant_label
        SELECT NEW.id, label.key, label.value FROM jsonb_each_text(NEW.labels) AS label;
    RETURN NULL;
END
$function$;
CREATE TRIGGER tenant_labels_added
    AFTER INSERT ON tenantcron.tenant
    FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION tenantcron.follow_labels();
CREATE TRIGGER tenant_labels_changed
    AFTER UPDATE OF labels ON tenantcron.tenant
    FOR EACH ROW WHEN (OLD.labels <> NEW.labels) EXECUTE FUNCTION tenantcron.follow_labels();
CREATE INDEX tenant_missing_idx ON tenantcron.tenant (id) WHERE missing_since IS NOT NULL;
DROP TRIGGER tenant_recorded ON tenantcron.tenant;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight, labels, sourced
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();
CREATE TABLE tenantcron.tenant_source (
    only_row boolean NOT NULL DEFAULT true,
    name text NOT NULL,
    max_age interval NOT NULL,
    columns text[] NOT NULL DEFAULT '{}',
    refreshed_at timestamptz NOT NULL,
    token uuid,
    started_at timestamptz,
    renewed_at timestamptz,
    finished_at timestamptz,
    held integer NOT NULL DEFAULT 0,
    problems integer NOT NULL DEFAULT 0,
    CONSTRAINT tenant_source_pkey PRIMARY KEY (only_row),
    CONSTRAINT tenant_source_only_row_check CHECK (only_row)
);
CREATE TABLE tenantcron.tenant_source_problem (
    place integer NOT NULL,
    tenant_id text NOT NULL,
    problem text NOT NULL,
    CONSTRAINT tenant_source_problem_pkey PRIMARY KEY (place)
);
ALTER TABLE tenantcron.tenant_source_problem ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.tenant_source_problem USING (tenantcron.sees(tenant_id));
-- As before, with three more tables.
CREATE OR REPLACE FUNCTION tenantcron.ensure_api_role() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        BEGIN
            CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN false;
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'tenantcron_api', 'MEMBER') THEN
        BEGIN
            GRANT tenantcron_api TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    GRANT USAGE ON SCHEMA tenantcron TO tenantcron_api;
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker, tenantcron.failover_loss,
        tenantcron.tenant_label, tenantcron.tenant_source, tenantcron.tenant_source_problem
        TO tenantcron_api;
    -- The state of webhooks, but neither their addresses nor what is sent to them.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    RETURN true;
END
$function$;
SELECT tenantcron.ensure_api_role();
"""
_DROP = """
DROP TABLE tenantcron.tenant_source, tenantcron.tenant_source_problem, tenantcron.tenant_label;
DROP TRIGGER tenant_labels_added ON tenantcron.tenant;
DROP TRIGGER tenant_labels_changed ON tenantcron.tenant;
DROP FUNCTION tenantcron.follow_labels();
DROP TRIGGER tenant_recorded ON tenantcron.tenant;
ALTER TABLE tenantcron.tenant DROP COLUMN labels, DROP COLUMN sourced, DROP COLUMN missing_since;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the columns and tables, record changes of labels, and let the API read them."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Remove them again."""
    run_script(op.get_bind(), _DROP)
