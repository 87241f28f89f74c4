-- Due cursors, the longest overdue first. One replica locks each cursor; the others skip it. The time
-- is returned, because the due occurrences are computed with the same time.
SELECT
    c.schedule_id, c.tenant_id, c.schedule_name, c.saga_name, c.cron_expr, c.timezone,
    c.definition_id, c.next_run_at, c.paused_at, c.paused_by, c.paused_reason, c.paused_until,
    c.last_run_at, greatest(c.effective_from, c.counts_after),
    coalesce(%(at)s::timestamptz, statement_timestamp())
FROM tenantcron.schedule_cursor AS c
WHERE
    c.enabled AND c.fault IS NULL AND c.next_run_at IS NOT NULL
    AND c.next_run_at <= coalesce(%(at)s::timestamptz, statement_timestamp())
ORDER BY c.next_run_at
LIMIT %(batch)s
FOR NO KEY UPDATE SKIP LOCKED
