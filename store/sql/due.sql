-- Due cursors, the longest waiting first, each taken by one replica: whoever comes second skips it.
-- The time comes along, because what is due is reckoned with the same moment that found it.
SELECT
    c.schedule_id, c.tenant_id, c.schedule_name, c.saga_name, c.cron_expr, c.timezone,
    c.definition_id, c.next_run_at, c.paused_at IS NOT NULL, c.paused_reason, c.paused_until,
    c.last_run_at, greatest(c.effective_from, c.counts_after),
    coalesce(%(at)s::timestamptz, statement_timestamp())
FROM tenantcron.schedule_cursor AS c
WHERE
    c.enabled AND c.fault IS NULL AND c.next_run_at IS NOT NULL
    AND c.next_run_at <= coalesce(%(at)s::timestamptz, statement_timestamp())
ORDER BY c.next_run_at
LIMIT %(batch)s
FOR NO KEY UPDATE SKIP LOCKED
