-- The policy's quotas for single tenants: objects by tenant id.
ALTER TABLE tenantcron.limits ADD tenant_quotas jsonb NOT NULL DEFAULT '{}'
    CONSTRAINT limits_tenant_quotas_check CHECK (jsonb_typeof(tenant_quotas) = 'object');
-- The policy's weights by tenant id, as a scheduler declared them last.
ALTER TABLE tenantcron.limits ADD tenant_weights jsonb NOT NULL DEFAULT '{}'
    CONSTRAINT limits_tenant_weights_check CHECK (jsonb_typeof(tenant_weights) = 'object');
-- The policy's kinds of targets besides the built-in ones, as a scheduler declared them last.
ALTER TABLE tenantcron.limits ADD target_kinds varchar(128)[] NOT NULL DEFAULT '{}';
-- Upper bounds of the pending tasks of a tenant and of their bytes, in parts; submissions write it.
-- As for `tenant_start`, free space keeps updates out of the index.
CREATE TABLE tenantcron.tenant_pending (
    tenant_id varchar(48) NOT NULL,
    part int NOT NULL,
    tasks bigint NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT tenant_pending_pkey PRIMARY KEY (tenant_id, part)
) WITH (fillfactor = 50);

-- Executions that each tenant has started in its last minute with a start; claims write it. Updates
-- change no indexed column, so the free space of the pages keeps them out of the index.
CREATE TABLE tenantcron.tenant_start (
    tenant_id varchar(48) NOT NULL,
    minute timestamptz NOT NULL,
    number int NOT NULL,
    CONSTRAINT tenant_start_pkey PRIMARY KEY (tenant_id)
) WITH (fillfactor = 50);
-- A role that claims executions may write these as well, and weights, before grants.sql is run again.
DO $$
DECLARE
    named text;
BEGIN
    FOR named IN
        SELECT DISTINCT r.rolname
        FROM pg_catalog.pg_class AS c
        CROSS JOIN pg_catalog.aclexplode(c.relacl) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
        WHERE
            c.oid = 'tenantcron.execution_live'::regclass AND a.privilege_type = 'UPDATE'
            AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON tenantcron.tenant_start TO %I', named);
        EXECUTE format('GRANT UPDATE (weight, updated_at) ON tenantcron.tenant TO %I', named);
    END LOOP;
END $$;

-- How many executions a tenant has started in the minute of a time, for callers that see the tenant.
CREATE FUNCTION tenantcron.starts_in_minute(of_tenant text, at timestamptz) RETURNS int
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    SELECT coalesce((
        SELECT s.number
        FROM tenantcron.tenant_start AS s
        WHERE
            s.tenant_id = of_tenant AND s.minute = date_trunc('minute', at)
            AND tenantcron.sees(of_tenant)
    ), 0)
$function$;
REVOKE EXECUTE ON FUNCTION tenantcron.starts_in_minute(text, timestamptz) FROM PUBLIC;
