-- Ends executions that have waited for the rate limit of their host as long as they may: as in
-- claim.sql, a minute longer than their start deadline.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
late AS MATERIALIZED (
    SELECT e.id, e.scheduled_for, l.host
    FROM unnest(%(requires)s::text[], %(hosts)s::text[]) AS l (requires, host)
    CROSS JOIN clock
    JOIN tenantcron.execution_live AS e ON e.requires = l.requires
    WHERE
        e.state <> 'RUNNING' AND e.attempt = 0
        AND e.start_deadline < clock.now - interval '1 minute'
        AND e.created_at < clock.now - interval '1 minute'
        -- Otherwise it waited for something else, and a claim decides.
        AND EXISTS (
            SELECT FROM tenantcron.rate_limit AS r
            WHERE r.host = l.host AND r.spent_until > clock.now - interval '1 minute'
        )
    LIMIT %(most)s
)
UPDATE tenantcron.execution AS e
SET
    state = 'SKIPPED', reason_code = %(rate_limit)s, reason = late.host, finished_at = clock.now
FROM late, clock
WHERE e.id = late.id AND e.scheduled_for = late.scheduled_for AND e.state = 'PENDING'
RETURNING e.id, e.tenant_id, e.schedule_name, e.state, e.reason_code, e.reason
