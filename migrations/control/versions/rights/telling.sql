-- As before, and refused on any table but their own. A role that cannot execute them cannot attach
-- them to a table; the check also holds for a role that was granted too much. It comes before
-- anything of a row is read, because a type may come with code.
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
            'scheduled_for', e.scheduled_for, 'state', e.state, 'reason', e.reason,
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
        -- Not by the function: it would be called for each row, and this is joined once.
        AND EXISTS (
            SELECT FROM tenantcron.webhook AS w
            WHERE
                w.disabled_at IS NULL
                AND 'dev.tenantcron.execution.' || lower(e.state) = ANY (w.event_types)
                AND (w.tenant_ids IS NULL OR e.tenant_id = ANY (w.tenant_ids))
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
    IF TG_RELID <> 'tenantcron.webhook'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'follow_webhooks() serves tenantcron.webhook only';
    END IF;
    is_there := EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = 'tenantcron.execution'::regclass AND tgname = 'execution_told'
    );
    is_wanted := EXISTS (
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
CREATE OR REPLACE FUNCTION tenantcron.tell_pause() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    told text;
BEGIN
    IF TG_RELID <> 'tenantcron.schedule_cursor'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'tell_pause() serves tenantcron.schedule_cursor only';
    END IF;
    told := 'dev.tenantcron.schedule.'
        || CASE WHEN NEW.paused_at IS NULL THEN 'resumed' ELSE 'paused' END;
    IF tenantcron.is_heard(told, NEW.tenant_id) THEN
        INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
        SELECT
            NEW.tenant_id, told, 'schedules/' || NEW.schedule_name, now(),
            jsonb_build_object(
                'tenant', NEW.tenant_id, 'schedule', NEW.schedule_name,
                'paused', CASE WHEN NEW.paused_at IS NOT NULL THEN jsonb_build_object(
                    'at', NEW.paused_at, 'by', NEW.paused_by,
                    'reason', NEW.paused_reason, 'until', NEW.paused_until) END,
                'actor', jsonb_build_object(
                    'id', who.changed_by, 'type', who.actor_type, 'source', who.actor_source),
                'correlation_id', who.correlation_id
            )
        FROM tenantcron.acting() AS who;
    END IF;
    RETURN NULL;
END
$function$;
CREATE OR REPLACE FUNCTION tenantcron.tell_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    -- How far schedulers have followed is their own affair.
    own text[] := ARRAY['schedule_revision', 'synced_revision', 'sync_fault', 'updated_at'];
    was jsonb;
    becomes jsonb;
    tenant text;
BEGIN
    IF TG_RELID <> 'tenantcron.tenant'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'tell_tenant() serves tenantcron.tenant only';
    END IF;
    was := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - own END;
    becomes := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - own END;
    tenant := coalesce(becomes, was) ->> 'id';
    IF was IS DISTINCT FROM becomes
        AND tenantcron.is_heard('dev.tenantcron.tenant.changed', tenant)
    THEN
        INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
        SELECT
            tenant, 'dev.tenantcron.tenant.changed', 'tenants/' || tenant, now(),
            jsonb_build_object(
                'tenant', tenant,
                'operation', CASE TG_OP
                    WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
                'before', was, 'after', becomes,
                'actor', jsonb_build_object(
                    'id', who.changed_by, 'type', who.actor_type, 'source', who.actor_source),
                'correlation_id', who.correlation_id
            )
        FROM tenantcron.acting() AS who;
    END IF;
    RETURN NULL;
END
$function$;
