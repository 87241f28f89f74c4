DROP FUNCTION tenantcron.submit_task(
    text, text, json, timestamptz, interval, text, text, json, interval, text, json
);
DROP FUNCTION tenantcron.submit_tasks(text, json);
DROP FUNCTION tenantcron.submit_tasks_at(text, json, timestamptz);
DROP FUNCTION tenantcron.sum_pending(text, int);
DROP FUNCTION tenantcron.count_pending(text, int, bigint);
DROP FUNCTION tenantcron.raise_pending(text, bigint, bigint);
DROP FUNCTION tenantcron.batch_problems(json, timestamptz, bigint, text[]);
DROP FUNCTION tenantcron.task_problems(json, timestamptz, bigint, text[]);
DROP FUNCTION tenantcron.marked_escapes(json);
DROP FUNCTION tenantcron.task_setting_problems(jsonb, text[]);
DROP FUNCTION tenantcron.is_duration(jsonb, interval, interval);
DROP FUNCTION tenantcron.reject_tasks(text, jsonb);
DROP FUNCTION tenantcron.starts_in_minute(text, timestamptz);
DROP TABLE tenantcron.tenant_start;
DROP TABLE tenantcron.tenant_pending;
ALTER TABLE tenantcron.limits DROP tenant_quotas, DROP tenant_weights, DROP target_kinds;
