-- Rows are inserted while an attempt runs and deleted at its end, so dead rows accumulate quickly.
CREATE TABLE tenantcron.live_log (
    execution_id uuid NOT NULL,
    attempt int NOT NULL,
    end_position bigint NOT NULL,
    tenant_id varchar(48) NOT NULL,
    lines text NOT NULL,
    CONSTRAINT live_log_pkey PRIMARY KEY (execution_id, attempt, end_position)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
ALTER TABLE tenantcron.live_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.live_log USING (tenantcron.sees(tenant_id));
-- The roles of schedulers and of readers may use it before grants.sql is run again.
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
        EXECUTE format(
            'GRANT SELECT, INSERT, UPDATE, DELETE ON tenantcron.live_log TO %I', named
        );
    END LOOP;
    FOR named IN
        SELECT DISTINCT r.rolname
        FROM pg_catalog.pg_class AS c
        CROSS JOIN pg_catalog.aclexplode(c.relacl) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
        WHERE
            c.oid = 'tenantcron.execution_attempt'::regclass AND a.privilege_type = 'SELECT'
            AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON tenantcron.live_log TO %I', named);
    END LOOP;
END $$;
