DROP FUNCTION tenantcron.starts_in_minute(text, timestamptz);
DROP TABLE tenantcron.tenant_start;
DROP INDEX tenantcron.task_waiting_idx;
CREATE INDEX task_waiting_idx ON tenantcron.task (tenant_id, execute_at) WHERE fired_at IS NULL;
ALTER TABLE tenantcron.task DROP payload_bytes;
ALTER TABLE tenantcron.limits DROP tenant_quotas, DROP tenant_weights;
