"""Old audit records and manifest versions can be forgotten, by functions that keep the rest.

Audit tables stay append only for 30 days: a trigger refuses to delete a younger record, for the
owner as well. Tenants' tables get it with their own migration. Until then their old trigger refuses
every DELETE, and the function leaves them as they are. The release before forgets nothing.

Building the index reads the audit records once: less than a second for a million of them.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0013_record_retention"
down_revision = "0012_handler_roles"

_CREATE = """
CREATE FUNCTION tenantcron.refuse_early_delete() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF OLD.changed_at < statement_timestamp() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%I.%I is append only: DELETE of a record of %s is refused',
                         TG_TABLE_SCHEMA, TG_TABLE_NAME, OLD.changed_at),
        HINT = 'A record is kept for at least 30 days.';
END
$function$;
CREATE OR REPLACE TRIGGER audit_record_append_only
    BEFORE UPDATE OR TRUNCATE ON tenantcron.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
CREATE TRIGGER audit_record_kept
    BEFORE DELETE ON tenantcron.audit_record
    FOR EACH ROW EXECUTE FUNCTION tenantcron.refuse_early_delete();
ALTER TABLE tenantcron.audit_record
    ENABLE ALWAYS TRIGGER audit_record_append_only, ENABLE ALWAYS TRIGGER audit_record_kept;
CREATE INDEX audit_record_changed_idx ON tenantcron.audit_record USING brin (changed_at);

-- With the rights of its owner: a scheduler may not delete records. A schema that is locked, has no
-- table or is not migrated yet is skipped. The next pass comes soon.
CREATE FUNCTION tenantcron.forget_audit_records(
    of_schema text, older_than interval, at_most integer
) RETURNS integer
    LANGUAGE plpgsql STRICT SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $function$
DECLARE
    forgotten integer;
BEGIN
    IF older_than < interval '30 days' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('audit records are kept for at least 30 days, not %s', older_than);
    END IF;
    IF of_schema <> 'tenantcron'
        AND NOT EXISTS (SELECT FROM tenantcron.tenant WHERE schema_name = of_schema)
    THEN
        RETURN 0;
    END IF;
    EXECUTE format(
        'DELETE FROM %1$I.audit_record WHERE ctid = ANY (ARRAY('
        'SELECT ctid FROM %1$I.audit_record WHERE changed_at < $1 LIMIT $2'
        ' FOR UPDATE SKIP LOCKED))',
        of_schema
    ) USING statement_timestamp() - older_than, at_most;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
EXCEPTION
    WHEN undefined_table OR lock_not_available OR object_not_in_prerequisite_state THEN RETURN 0;
END
$function$;

-- The version in force is the newest. Those that a schedule of the tenant refers to are kept.
CREATE FUNCTION tenantcron.forget_manifest_versions(
    of_tenant text, kept integer, at_most integer
) RETURNS integer
    LANGUAGE plpgsql STRICT SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $function$
DECLARE
    forgotten integer;
    newest integer;
    of_schema text;
    referred_to uuid[];
BEGIN
    IF kept < 10 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('at least 10 manifest versions are kept, not %s', kept);
    END IF;
    SELECT max(version) INTO newest FROM tenantcron.manifest_version WHERE tenant_id = of_tenant;
    IF newest IS NULL OR NOT EXISTS (
        SELECT FROM tenantcron.manifest_version
        WHERE tenant_id = of_tenant AND version <= newest - kept
    ) THEN
        RETURN 0;
    END IF;
    SELECT schema_name INTO of_schema FROM tenantcron.tenant WHERE id = of_tenant;
    IF to_regclass(format('%I.tenant_schedule', of_schema)) IS NOT NULL THEN
        EXECUTE format('SELECT array_agg(manifest_version_id) FROM %I.tenant_schedule', of_schema)
            INTO referred_to;
    END IF;
    DELETE FROM tenantcron.manifest_version WHERE id = ANY (ARRAY(
        SELECT id FROM tenantcron.manifest_version
        WHERE
            tenant_id = of_tenant AND version <= newest - kept
            AND id <> ALL (coalesce(referred_to, ARRAY[]::uuid[]))
        ORDER BY version LIMIT at_most
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
EXCEPTION
    WHEN lock_not_available THEN RETURN 0;
END
$function$;
REVOKE ALL ON FUNCTION
    tenantcron.refuse_early_delete(),
    tenantcron.forget_audit_records(text, interval, integer),
    tenantcron.forget_manifest_versions(text, integer, integer)
    FROM PUBLIC;
"""
# Tenants' tables go back first, because their triggers name the function.
_DROP = """
DROP TRIGGER audit_record_kept ON tenantcron.audit_record;
CREATE OR REPLACE TRIGGER audit_record_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON tenantcron.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
ALTER TABLE tenantcron.audit_record ENABLE ALWAYS TRIGGER audit_record_append_only;
DROP INDEX tenantcron.audit_record_changed_idx;
DROP FUNCTION tenantcron.refuse_early_delete(),
    tenantcron.forget_audit_records(text, interval, integer),
    tenantcron.forget_manifest_versions(text, integer, integer);
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Let old records go, and create the functions that delete them."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Keep all records again."""
    run_script(op.get_bind(), _DROP)
