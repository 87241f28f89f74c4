-- As before, with the logs of running attempts.
CREATE OR REPLACE FUNCTION tenantcron.ensure_api_role() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        BEGIN
            CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN false;
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'tenantcron_api', 'MEMBER') THEN
        BEGIN
            GRANT tenantcron_api TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    GRANT USAGE ON SCHEMA tenantcron TO tenantcron_api;
    GRANT EXECUTE ON FUNCTION tenantcron.sees(text), tenantcron.sees_schema(text),
        tenantcron.schema_of(text), tenantcron.running_now(),
        tenantcron.starts_in_minute(text, timestamptz) TO tenantcron_api;
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker, tenantcron.failover_loss,
        tenantcron.tenant_label, tenantcron.tenant_source, tenantcron.tenant_source_problem,
        tenantcron.task, tenantcron.live_log
        TO tenantcron_api;
    -- The state of webhooks, but neither their addresses nor what is sent to them.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    -- The state of event buses, without leases and events.
    GRANT SELECT (name, seen_at, last_published, failures, last_error, dropped, dropped_at)
        ON tenantcron.event_bus TO tenantcron_api;
    GRANT SELECT (place, placed_at) ON tenantcron.bus_event TO tenantcron_api;
    RETURN true;
END
$function$;
SELECT tenantcron.ensure_api_role();
