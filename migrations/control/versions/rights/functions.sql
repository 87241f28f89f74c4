-- As before, with the functions that row-level security calls for each reader.
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
        tenantcron.schema_of(text), tenantcron.running_now() TO tenantcron_api;
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker, tenantcron.failover_loss,
        tenantcron.tenant_label, tenantcron.tenant_source, tenantcron.tenant_source_problem
        TO tenantcron_api;
    -- The state of webhooks, but neither their addresses nor what is sent to them.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    RETURN true;
END
$function$;
-- Postgres looks for types and tables among temporary objects first, unless the path names them
-- last. A caller could create a type there, whose checks would run with the owner's rights.
DO $$
DECLARE
    called text;
BEGIN
    FOR called IN
        SELECT p.oid::regprocedure
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'tenantcron'::regnamespace AND p.prosqlbody IS NULL
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', called);
    END LOOP;
END $$;
-- `migrate` does it again after later migrations. Roles that may use the schema keep what reading
-- tables and recording changes calls; those of deploy/sql get their own list from grants.sql.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenantcron FROM PUBLIC;
DO $$
DECLARE
    named text;
BEGIN
    FOR named IN
        SELECT DISTINCT r.rolname
        FROM pg_catalog.pg_namespace AS n
        CROSS JOIN pg_catalog.aclexplode(n.nspacl) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
        WHERE
            n.nspname = 'tenantcron' AND a.privilege_type = 'USAGE'
            AND a.grantee <> n.nspowner AND r.rolname <> 'tenantcron_api'
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION tenantcron.sees(text), tenantcron.sees_schema(text),'
            ' tenantcron.schema_of(text), tenantcron.running_now(), tenantcron.acting(),'
            ' tenantcron.put_on_record(text, text, text, jsonb, jsonb),'
            ' tenantcron.recording(text, text), tenantcron.notice_change_by_hand(text, bigint)'
            ' TO %I',
            named
        );
    END LOOP;
END $$;
SELECT tenantcron.ensure_api_role();
