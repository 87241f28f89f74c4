-- Events, in the transaction of what they tell of, and only those that somebody wants to hear.
-- They are written with the rights of the owner: whoever may end an execution or change a tenant
-- need not be allowed to write events of their own. The bodies of single rows are triggers, too,
-- because a function that anybody could call would let anybody tell anything.
CREATE FUNCTION tenantcron.is_heard(event_type text, of_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (
        SELECT FROM tenantcron.webhook AS w
        WHERE
            w.disabled_at IS NULL AND event_type = ANY (w.event_types)
            AND (w.tenant_ids IS NULL OR of_tenant = ANY (w.tenant_ids))
    );
CREATE FUNCTION tenantcron.tell_executions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
BEGIN
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
-- Nearly everywhere nobody listens to executions, and then there is no trigger at all: even one
-- that returns at once makes the database keep a copy of every row, thousands a second. To take it
-- away takes a lock that whoever reads a long history would keep everybody waiting for; then it
-- stays, finds that nobody listens, and goes the next time.
CREATE FUNCTION tenantcron.follow_webhooks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    is_there boolean := EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = 'tenantcron.execution'::regclass AND tgname = 'execution_told'
    );
    is_wanted boolean := EXISTS (
        SELECT FROM tenantcron.webhook AS w, unnest(w.event_types) AS event_type
        WHERE w.disabled_at IS NULL AND event_type LIKE 'dev.tenantcron.execution.%'
    );
    patience text := current_setting('lock_timeout');
BEGIN
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
CREATE TRIGGER webhook_followed
    AFTER INSERT OR DELETE OR UPDATE OF event_types, disabled_at ON tenantcron.webhook
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.follow_webhooks();
CREATE FUNCTION tenantcron.tell_pause() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    told text := 'dev.tenantcron.schedule.'
        || CASE WHEN NEW.paused_at IS NULL THEN 'resumed' ELSE 'paused' END;
BEGIN
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
CREATE TRIGGER schedule_cursor_pause_told
    AFTER UPDATE ON tenantcron.schedule_cursor
    FOR EACH ROW
    WHEN (
        OLD.paused_at IS DISTINCT FROM NEW.paused_at
        OR OLD.paused_until IS DISTINCT FROM NEW.paused_until
        OR OLD.paused_reason IS DISTINCT FROM NEW.paused_reason
    )
    EXECUTE FUNCTION tenantcron.tell_pause();
CREATE FUNCTION tenantcron.tell_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    -- How far schedulers have followed is their own affair.
    own text[] := ARRAY['schedule_revision', 'synced_revision', 'sync_fault', 'updated_at'];
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - own END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - own END;
    tenant text := coalesce(becomes, was) ->> 'id';
BEGIN
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
CREATE TRIGGER tenant_told
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.tell_tenant();
