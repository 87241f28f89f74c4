-- Pending executions that no live replica can run end like all others: with their tenant or schedule,
-- for the next occurrence, or when they may not wait any longer. They just never start. `requires`
-- lists the requirements that no live replica has, so the index finds only these.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
ending AS MATERIALIZED (
    SELECT
        e.id, e.requires,
        -- The detail, if its tenant is the reason.
        CASE
            WHEN t.status IS NULL THEN 'removed' ELSE concat_ws(': ', t.status, t.status_reason)
        END AS status,
        CASE
            WHEN t.status IS DISTINCT FROM 'active' THEN %(tenant_inactive)s::text
            -- A task has no cursor.
            WHEN c.schedule_id IS NULL AND e.schedule_id <> e.id THEN %(removed)s
            WHEN e.actor_source <> 'manual' AND NOT c.enabled THEN %(disabled)s
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
                THEN %(replaced)s
            -- As in claim.sql: an occurrence can be fired up to a minute late.
            WHEN
                e.start_deadline + %(grace)s::interval < clock.now
                AND e.created_at + %(grace)s::interval < clock.now
                THEN %(no_runner)s
        END AS reason_code
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
    reason_code = ending.reason_code,
    reason = CASE ending.reason_code
        WHEN %(tenant_inactive)s THEN ending.status WHEN %(no_runner)s THEN ending.requires
    END,
    finished_at = clock.now
FROM (
    SELECT * FROM ending WHERE reason_code IS NOT NULL LIMIT %(most)s
) AS ending, clock
WHERE e.id = ending.id AND e.state IN ('PENDING', 'RETRYING', 'FAILED')
RETURNING e.id, e.tenant_id, e.schedule_name, e.state, e.reason_code, e.reason
