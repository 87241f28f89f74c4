-- Pending executions that no live replica can run end like all others: with their tenant or schedule,
-- for the next occurrence, or when they may not wait any longer. Only that they never start is left
-- out. `requires` names what no live replica has, so the index finds just these.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
ending AS MATERIALIZED (
    SELECT
        e.id,
        CASE
            WHEN t.status IS NULL THEN 'tenant removed'
            WHEN t.status <> 'active' THEN concat_ws(': ', 'tenant ' || t.status, t.status_reason)
            WHEN c.schedule_id IS NULL THEN 'schedule removed'
            WHEN e.actor_source <> 'manual' AND NOT c.enabled THEN 'schedule disabled'
            WHEN
                e.overlap = 'cancel_running' AND EXISTS (
                    SELECT
                    FROM tenantcron.execution_live AS later
                    WHERE
                        later.state <> 'RUNNING' AND later.requires = e.requires
                        AND later.tenant_id = e.tenant_id AND later.schedule_id = e.schedule_id
                        AND later.scheduled_for > e.scheduled_for
                        AND later.not_before <= clock.now
                )
                THEN 'replaced by the next occurrence'
            -- As for those that could run: an occurrence can be fired up to a minute late.
            WHEN
                e.start_deadline + %(grace)s::interval < clock.now
                AND e.created_at + %(grace)s::interval < clock.now
                THEN %(reason)s || ' (' || e.requires || ')'
        END AS reason
    FROM tenantcron.execution_live AS e
    CROSS JOIN clock
    LEFT JOIN tenantcron.tenant AS t ON t.id = e.tenant_id
    LEFT JOIN tenantcron.schedule_cursor AS c ON c.schedule_id = e.schedule_id
    WHERE
        e.state <> 'RUNNING' AND e.requires = ANY(%(requires)s::text[])
        AND e.not_before <= clock.now
)
UPDATE tenantcron.execution AS e
SET
    state = CASE WHEN e.attempt > 0 THEN 'CANCELLED' ELSE 'SKIPPED' END,
    reason = ending.reason,
    finished_at = clock.now
FROM (
    SELECT id, reason FROM ending WHERE reason IS NOT NULL LIMIT %(most)s
) AS ending, clock
WHERE e.id = ending.id AND e.state IN ('PENDING', 'RETRYING', 'FAILED')
RETURNING e.id, e.tenant_id, e.schedule_name, e.state, e.reason
