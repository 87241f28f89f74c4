-- Shared with the tenants' audit tables. It holds against the owner, too: who owns a table needs
-- no privilege to change its rows, but still meets its triggers.
CREATE FUNCTION tenantcron.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%I.%I is append only: %s is refused',
                         TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP),
        HINT = 'What happened is corrected by a new record, never by changing an old one.';
END
$function$;
CREATE TRIGGER audit_record_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON tenantcron.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
ALTER TABLE tenantcron.audit_record ENABLE ALWAYS TRIGGER audit_record_append_only;
