DROP FUNCTION tenantcron.drop_handler_role(text), tenantcron.ensure_handler_role(text, text),
    tenantcron.make_handler_role(text, text),
    tenantcron.missing_handler_rights(oid, oid, text);
CREATE OR REPLACE FUNCTION tenantcron.acting(
    OUT changed_by text, OUT actor_type text, OUT actor_source text,
    OUT authenticated boolean, OUT correlation_id uuid, OUT by_hand boolean
) LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    by_hand := coalesce(current_setting('tenantcron.actor', true), '') = '';
    correlation_id := nullif(current_setting('tenantcron.correlation_id', true), '')::uuid;
    IF by_hand THEN
        changed_by := session_user;
        actor_type := 'human';
        actor_source := 'sql';
        authenticated := false;
    ELSE
        changed_by := current_setting('tenantcron.actor');
        actor_type := current_setting('tenantcron.actor_type', true);
        actor_source := current_setting('tenantcron.actor_source', true);
        authenticated := coalesce(current_setting('tenantcron.authenticated', true), '') = 'true';
    END IF;
END
$function$;
DROP FUNCTION tenantcron.handler_role(text);
DROP TABLE tenantcron.handler_login;
