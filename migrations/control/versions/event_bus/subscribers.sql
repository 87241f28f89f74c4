-- As before, with buses: a bus receives every event of every tenant.
CREATE OR REPLACE FUNCTION tenantcron.is_heard(event_type text, of_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM tenantcron.event_bus) OR EXISTS (
        SELECT FROM tenantcron.webhook AS w
        WHERE
            w.disabled_at IS NULL AND event_type = ANY (w.event_types)
            AND (w.tenant_ids IS NULL OR of_tenant = ANY (w.tenant_ids))
    );
CREATE OR REPLACE FUNCTION tenantcron.tell_executions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF TG_RELID <> 'tenantcron.execution'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'tell_executions() serves tenantcron.execution only';
    END IF;
    INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
    SELECT
        e.tenant_id, 'dev.tenantcron.execution.' || lower(e.state), 'executions/' || e.id,
        coalesce(e.finished_at, now()),
        jsonb_build_object(
            'id', e.id, 'tenant', e.tenant_id, 'schedule', e.schedule_name, 'saga', e.saga_name,
            'scheduled_for', e.scheduled_for, 'state', e.state, 'reason_code', e.reason_code,
            'reason', e.reason,
            'attempt', e.attempt, 'started_at', e.started_at, 'finished_at', e.finished_at,
            'covers_from', e.covers_from, 'missed_count', e.missed_count,
            'actor', jsonb_build_object(
                'id', e.actor_id, 'type', e.actor_type, 'source', e.actor_source
            ),
            'correlation_id', e.id
        )
    FROM becomes AS e
    WHERE
        e.state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
        -- Not by the function: it would be called for each row, and these are evaluated once.
        AND (
            EXISTS (SELECT FROM tenantcron.event_bus)
            OR EXISTS (
                SELECT FROM tenantcron.webhook AS w
                WHERE
                    w.disabled_at IS NULL
                    AND 'dev.tenantcron.execution.' || lower(e.state) = ANY (w.event_types)
                    AND (w.tenant_ids IS NULL OR e.tenant_id = ANY (w.tenant_ids))
            )
        )
    ORDER BY e.finished_at, e.scheduled_for, e.id;
    RETURN NULL;
END
$function$;
CREATE OR REPLACE FUNCTION tenantcron.follow_webhooks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    is_there boolean;
    is_wanted boolean;
    patience text := current_setting('lock_timeout');
BEGIN
    IF TG_RELID NOT IN ('tenantcron.webhook'::regclass, 'tenantcron.event_bus'::regclass) THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'follow_webhooks() serves tenantcron.webhook and tenantcron.event_bus only';
    END IF;
    is_there := EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = 'tenantcron.execution'::regclass AND tgname = 'execution_told'
    );
    is_wanted := EXISTS (SELECT FROM tenantcron.event_bus) OR EXISTS (
        SELECT FROM tenantcron.webhook AS w, unnest(w.event_types) AS event_type
        WHERE w.disabled_at IS NULL AND event_type LIKE 'dev.tenantcron.execution.%'
    );
    IF is_wanted AND NOT is_there THEN
        CREATE TRIGGER execution_made_told
            AFTER INSERT ON tenantcron.execution
            REFERENCING NEW TABLE AS becomes
            FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.tell_executions();
        CREATE TRIGGER execution_told
            AFTER UPDATE ON tenantcron.execution
            REFERENCING NEW TABLE AS becomes
            FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.tell_executions();
    ELSIF is_there AND NOT is_wanted THEN
        PERFORM set_config('lock_timeout', '500ms', true);
        DROP TRIGGER execution_made_told ON tenantcron.execution;
        DROP TRIGGER execution_told ON tenantcron.execution;
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN NULL;
END
$function$;
CREATE TRIGGER event_bus_followed
    AFTER INSERT OR DELETE ON tenantcron.event_bus
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.follow_webhooks();
