-- The role itself belongs to the whole server, and not everybody may make one. Where it cannot be
-- made, or not be taken on, the API says so and keeps tenants apart by its code alone.
CREATE FUNCTION tenantcron.ensure_api_role() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
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
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker TO tenantcron_api;
    -- How webhooks do; where they are and what they are told is nobody's business.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    RETURN true;
END
$function$;
CREATE FUNCTION tenantcron.open_to_api(of_schema text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO tenantcron_api', of_schema);
        EXECUTE format(
            'GRANT SELECT ON %1$I.tenant_schedule, %1$I.audit_record TO tenantcron_api', of_schema
        );
    END IF;
END
$function$;
SELECT tenantcron.ensure_api_role();
