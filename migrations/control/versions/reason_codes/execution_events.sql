-- As before, with the code of the reason. The replica that delivers an event puts it into words.
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
