"""The control schema records when the schedules of a tenant changed, and who changed them.

The audit records themselves stay in the schema of the tenant. With the times, a list of the newest
records of all tenants reads only the tenants that it shows. The trigger that writes the records
adds a row, whichever release changes the schedules. The next migration of each tenant adds the
times of its older records.

Locks: SHARE on `audit_record` while its index is built, less than a second for a million records.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0019_schedule_changes"
down_revision = "0018_handed_over"

_TABLE = """
CREATE TABLE tenantcron.schedule_change (
    changed_at timestamptz NOT NULL,
    tenant_id varchar(48) NOT NULL,
    changed_by varchar(255) NOT NULL,
    CONSTRAINT schedule_change_pkey PRIMARY KEY (changed_at, tenant_id, changed_by)
);
CREATE TRIGGER schedule_change_append_only
    BEFORE UPDATE OR TRUNCATE ON tenantcron.schedule_change
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
CREATE TRIGGER schedule_change_kept
    BEFORE DELETE ON tenantcron.schedule_change
    FOR EACH ROW EXECUTE FUNCTION tenantcron.refuse_early_delete();
ALTER TABLE tenantcron.schedule_change
    ENABLE ALWAYS TRIGGER schedule_change_append_only,
    ENABLE ALWAYS TRIGGER schedule_change_kept;
CREATE INDEX audit_record_newest_idx ON tenantcron.audit_record (changed_at, id);
-- A role that may write audit records may write this as well, before grants.sql is run again.
DO $$
DECLARE
    named text;
BEGIN
    FOR named IN
        SELECT DISTINCT r.rolname
        FROM pg_catalog.pg_class AS c
        CROSS JOIN pg_catalog.aclexplode(c.relacl) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
        WHERE
            c.oid = 'tenantcron.audit_record'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, INSERT ON tenantcron.schedule_change TO %I', named);
    END LOOP;
END $$;
"""
_NOTICE = """
CREATE OR REPLACE FUNCTION tenantcron.notice_change_by_hand(of_schema text, changed bigint)
    RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
-- An apply increments the revision itself. For a manual change, this function does.
DECLARE
    noticed text;
BEGIN
    {recorded}
    IF changed > 0 AND (tenantcron.acting()).by_hand THEN
        UPDATE tenantcron.tenant SET schedule_revision = schedule_revision + 1
            WHERE schema_name = of_schema RETURNING id INTO noticed;
        PERFORM pg_notify('tenantcron_schedules', noticed);
    END IF;
END
$function$;
"""
_RECORDED = """
    IF changed > 0 THEN
        INSERT INTO tenantcron.schedule_change (changed_at, tenant_id, changed_by)
            SELECT now(), t.id, (tenantcron.acting()).changed_by
            FROM tenantcron.tenant AS t WHERE t.schema_name = of_schema
            ON CONFLICT DO NOTHING;
    END IF;
"""
_FORGET = """
CREATE OR REPLACE FUNCTION tenantcron.forget_audit_records(
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
    {changes}
    RETURN forgotten;
EXCEPTION
    WHEN undefined_table OR lock_not_available OR object_not_in_prerequisite_state THEN RETURN 0;
END
$function$;
"""
_CHANGES = """
    IF of_schema = 'tenantcron' THEN
        DELETE FROM tenantcron.schedule_change WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM tenantcron.schedule_change
            WHERE changed_at < statement_timestamp() - older_than
            ORDER BY changed_at LIMIT at_most FOR UPDATE SKIP LOCKED
        ));
    END IF;
"""
_DROP = """
DROP INDEX tenantcron.audit_record_newest_idx;
DROP TABLE tenantcron.schedule_change;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the table, and let the trigger of schedules write it."""
    functions = _NOTICE.replace("{recorded}", _RECORDED) + _FORGET.replace("{changes}", _CHANGES)
    run_script(op.get_bind(), _TABLE + functions)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop it; the audit records stay."""
    functions = _NOTICE.replace("{recorded}", "") + _FORGET.replace("{changes}", "")
    run_script(op.get_bind(), functions + _DROP)
