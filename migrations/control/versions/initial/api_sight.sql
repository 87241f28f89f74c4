-- What a request may see. The owner of the tables ignores row-level security, so a request reads
-- as `tenantcron_api`, and says whose it is: `*`, or the one tenant that its token is bound to.
-- Where nothing is said, that role sees nothing. Other roles see what they have rights for, as
-- ever. The bodies are parsed here, so that no search path can change what they mean.
CREATE FUNCTION tenantcron.sees(tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) IN ('*', tenant);
CREATE FUNCTION tenantcron.sees_schema(tenant_schema text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) = '*'
        OR 'tenant_' || current_setting('tenantcron.tenant', true) = tenant_schema;
ALTER TABLE tenantcron.tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.tenant USING (tenantcron.sees(id));
ALTER TABLE tenantcron.manifest_version ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.manifest_version USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.schedule_cursor ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.schedule_cursor USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.execution ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.execution USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.audit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.audit_record USING (tenantcron.sees(tenant_id));
-- These two have no tenant of their own: they are seen with what names them.
ALTER TABLE tenantcron.execution_attempt ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.execution_attempt USING (
    tenantcron.sees('*') OR EXISTS (
        SELECT FROM tenantcron.execution AS e
        WHERE e.id = execution_attempt.execution_id
            AND e.scheduled_for = execution_attempt.scheduled_for
    )
);
ALTER TABLE tenantcron.schedule_definition ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.schedule_definition USING (
    tenantcron.sees('*') OR EXISTS (
        SELECT FROM tenantcron.schedule_cursor AS c
        WHERE c.tenant_id = current_setting('tenantcron.tenant', true)
            AND c.definition_id = schedule_definition.id
    )
);
-- How full the cluster is decides whether anybody's execution starts, so everybody may know.
CREATE FUNCTION tenantcron.running_now() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    RETURN (SELECT count(*) FROM tenantcron.execution WHERE state = 'RUNNING');
