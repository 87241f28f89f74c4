-- Pauses and limits are an operator's, and on record like everything that people change. A cursor
-- moves far too often for a trigger on every update: WHEN keeps it to the pauses.
CREATE FUNCTION tenantcron.record_pause() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM tenantcron.put_on_record(
        'pause',
        NEW.tenant_id || '/' || NEW.schedule_name,
        CASE WHEN NEW.paused_at IS NULL THEN 'resume' ELSE 'pause' END,
        CASE WHEN OLD.paused_at IS NOT NULL THEN jsonb_build_object(
            'at', OLD.paused_at, 'by', OLD.paused_by,
            'reason', OLD.paused_reason, 'until', OLD.paused_until) END,
        CASE WHEN NEW.paused_at IS NOT NULL THEN jsonb_build_object(
            'at', NEW.paused_at, 'by', NEW.paused_by,
            'reason', NEW.paused_reason, 'until', NEW.paused_until) END
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER schedule_cursor_pause_recorded
    AFTER UPDATE ON tenantcron.schedule_cursor
    FOR EACH ROW
    WHEN (
        OLD.paused_at IS DISTINCT FROM NEW.paused_at
        OR OLD.paused_until IS DISTINCT FROM NEW.paused_until
        OR OLD.paused_reason IS DISTINCT FROM NEW.paused_reason
    )
    EXECUTE FUNCTION tenantcron.record_pause();
CREATE FUNCTION tenantcron.record_limits() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM tenantcron.put_on_record(
        'limits', 'cluster', 'update', to_jsonb(OLD), to_jsonb(NEW)
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER limits_recorded
    AFTER UPDATE ON tenantcron.limits
    FOR EACH ROW WHEN (OLD IS DISTINCT FROM NEW)
    EXECUTE FUNCTION tenantcron.record_limits();
