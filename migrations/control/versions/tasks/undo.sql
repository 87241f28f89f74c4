DROP INDEX tenantcron.execution_pending_task_idx;
DROP TABLE tenantcron.task;
DROP TRIGGER tenant_recorded ON tenantcron.tenant;
ALTER TABLE tenantcron.tenant DROP quotas;
ALTER TABLE tenantcron.limits DROP quotas;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight, labels, sourced
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();
