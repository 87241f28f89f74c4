-- Columns of a fixed size come first: then a row has no gaps between them.
CREATE TABLE tenantcron.task (
    id uuid NOT NULL,
    execute_at timestamptz NOT NULL,
    submitted_at timestamptz NOT NULL,
    fired_at timestamptz,
    payload_bytes int NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    authenticated boolean NOT NULL,
    tenant_id varchar(48) NOT NULL,
    saga_name varchar(128) NOT NULL,
    requires varchar(136) NOT NULL,
    actor_id varchar(255) NOT NULL,
    actor_type varchar(32) NOT NULL,
    actor_source varchar(64) NOT NULL,
    definition jsonb,
    payload jsonb NOT NULL,
    idempotency_key varchar(255),
    request_hash bytea,
    CONSTRAINT task_pkey PRIMARY KEY (id),
    CONSTRAINT task_priority_check CHECK (priority BETWEEN 0 AND 3),
    CONSTRAINT task_key_check CHECK ((idempotency_key IS NULL) = (request_hash IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX task_key_idx ON tenantcron.task (tenant_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_due_idx ON tenantcron.task (execute_at)
    WITH (deduplicate_items = off) WHERE fired_at IS NULL;
-- The index has the sizes of the payloads, so the quota of stored bytes reads no row.
CREATE INDEX task_waiting_idx ON tenantcron.task (tenant_id, execute_at) INCLUDE (payload_bytes)
    WHERE fired_at IS NULL;
CREATE INDEX task_newest_idx ON tenantcron.task (tenant_id, id);
CREATE INDEX task_fired_idx ON tenantcron.task (fired_at) WHERE fired_at IS NOT NULL;
-- Pending executions of tasks, for the quota. Executions of schedules have no entry.
CREATE INDEX execution_pending_task_idx ON tenantcron.execution_live (tenant_id)
    WHERE schedule_id = id AND state <> 'RUNNING';

-- Declared by the policy, and overridden by operators for one tenant; `{}`: the built-in values.
ALTER TABLE tenantcron.limits ADD quotas jsonb NOT NULL DEFAULT '{}'
    CONSTRAINT limits_quotas_check CHECK (jsonb_typeof(quotas) = 'object');
ALTER TABLE tenantcron.tenant ADD quotas jsonb NOT NULL DEFAULT '{}'
    CONSTRAINT tenant_quotas_check CHECK (jsonb_typeof(quotas) = 'object');
DROP TRIGGER tenant_recorded ON tenantcron.tenant;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight, labels, sourced,
            quotas
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();

ALTER TABLE tenantcron.task ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.task USING (tenantcron.sees(tenant_id));
-- Schedulers that may update executions fire tasks, before grants.sql is run again.
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
            c.oid = 'tenantcron.execution'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tenantcron.task TO %I', named);
        EXECUTE format('GRANT EXECUTE ON FUNCTION tenantcron.has_former_replica() TO %I', named);
    END LOOP;
END $$;
