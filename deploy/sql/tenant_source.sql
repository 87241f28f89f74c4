-- Additional privileges of a scheduler that tracks a tenant source: status, weight and labels of
-- tenants. Run it with psql as tenantcron_deploy after grants.sql. The role also needs SELECT on the
-- source. Registering new tenants creates tables: run
-- `tenantcron tenant refresh` as tenantcron_deploy.
BEGIN;
GRANT INSERT, UPDATE, DELETE ON tenantcron.tenant_source, tenantcron.tenant_source_problem
    TO tenantcron_run;
GRANT UPDATE (
    status, status_reason, weight, labels, sourced, missing_since, schedule_revision, updated_at
) ON tenantcron.tenant TO tenantcron_run;
GRANT INSERT, DELETE ON tenantcron.tenant_label TO tenantcron_run;
COMMIT;
