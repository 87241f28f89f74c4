-- A handler can set any setting, so what its session says counts only with the proof of a lease that
-- is held now. For all other logins it is as it was.
CREATE OR REPLACE FUNCTION tenantcron.acting(
    OUT changed_by text, OUT actor_type text, OUT actor_source text,
    OUT authenticated boolean, OUT correlation_id uuid, OUT by_hand boolean
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    execution text := current_setting('tenantcron.correlation_id', true);
BEGIN
    IF session_user ~ '^tc_[0-9a-f]{8}_' THEN
        authenticated := false;
        by_hand := true;
        IF execution ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
            -- A scheduler acts as the service that runs the attempt, which may not have fired it.
            SELECT
                CASE e.actor_type
                    WHEN 'scheduler' THEN coalesce('system:scheduler:' || w.service, e.actor_id)
                    ELSE e.actor_id
                END,
                e.actor_type, e.actor_source, e.id
            INTO changed_by, actor_type, actor_source, correlation_id
            FROM tenantcron.execution_live AS e
            LEFT JOIN tenantcron.worker AS w ON w.id = e.worker_id
            WHERE
                e.id = execution::uuid AND e.state = 'RUNNING'
                AND current_setting('tenantcron.lease', true)
                    = encode(sha256(convert_to(e.lease_token || '/' || e.id, 'UTF8')), 'hex')
                AND session_user = tenantcron.handler_role(e.tenant_id);
        END IF;
        changed_by := coalesce(changed_by, session_user);
        actor_type := coalesce(actor_type, 'worker');
        actor_source := coalesce(actor_source, 'sql');
        RETURN;
    END IF;
    by_hand := coalesce(current_setting('tenantcron.actor', true), '') = '';
    correlation_id := nullif(execution, '')::uuid;
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
