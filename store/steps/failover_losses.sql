-- The attempts that a replica remembers having started.
WITH given AS (
    SELECT *
    FROM unnest(
        %(ids)s::uuid[], %(scheduled_for)s::timestamptz[], %(attempts)s::integer[],
        %(started_at)s::timestamptz[], %(ended)s::boolean[], %(tenants)s::text[],
        %(schedules)s::text[]
    ) AS g (id, scheduled_for, attempt, started_at, ended, tenant_id, schedule_name)
),
-- An attempt is identified by its number and its start: a repeated attempt has another start. A later
-- attempt without a row of this one follows a plain success that an operator retried.
known AS (
    SELECT
        g.*,
        coalesce(
            CASE
                WHEN e.attempt > g.attempt THEN coalesce(a.started_at = g.started_at, true)
                WHEN e.attempt = g.attempt THEN e.started_at = g.started_at
            END, false
        ) AS knows_start,
        coalesce(
            CASE
                WHEN e.attempt > g.attempt THEN true
                WHEN e.attempt = g.attempt THEN e.state <> 'RUNNING'
            END AND coalesce(a.outcome, '') <> 'LOST', false
        ) AS knows_end
    FROM given AS g
    LEFT JOIN tenantcron.execution AS e ON e.id = g.id AND e.scheduled_for = g.scheduled_for
    LEFT JOIN tenantcron.execution_attempt AS a
        ON a.execution_id = g.id AND a.scheduled_for = g.scheduled_for AND a.attempt = g.attempt
)
INSERT INTO tenantcron.failover_loss (
    execution_id, attempt, timeline, scheduled_for, tenant_id, schedule_name, lost, worker_id,
    noticed_at
)
SELECT
    id, attempt, %(timeline)s, scheduled_for, tenant_id, schedule_name,
    CASE WHEN knows_start THEN 'result' ELSE 'claim' END,
    %(worker_id)s, coalesce(%(at)s::timestamptz, statement_timestamp())
FROM known
WHERE NOT knows_start OR (ended AND NOT knows_end)
ON CONFLICT (execution_id, attempt, timeline) DO NOTHING
RETURNING *
