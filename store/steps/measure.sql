-- The metrics of the cluster in one row. The live partition is small and is read once. Everything else
-- uses an index, so that the cost does not depend on the history or the number of schedules.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
allowed AS MATERIALIZED (
    SELECT
        coalesce(operator, declared) AS overall,
        coalesce(operator_per_tenant, declared_per_tenant) AS per_tenant
    FROM tenantcron.limits
    LIMIT 1
),
live AS MATERIALIZED (
    SELECT
        tenant_id, priority,
        count(*) FILTER (WHERE state = 'RUNNING') AS running,
        count(*) FILTER (WHERE state <> 'RUNNING') AS waiting,
        count(*) FILTER (WHERE state <> 'RUNNING' AND not_before > clock.now) AS future,
        min(not_before) FILTER (WHERE state <> 'RUNNING') AS first
    FROM tenantcron.execution
    CROSS JOIN clock
    WHERE state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')
    GROUP BY tenant_id, priority
),
tenant AS MATERIALIZED (
    SELECT tenant_id, sum(running)::int AS running, sum(waiting)::int AS waiting
    FROM live
    GROUP BY tenant_id
),
priority AS MATERIALIZED (
    SELECT priority, sum(waiting)::int AS waiting FROM live GROUP BY priority
),
-- Time series per tenant, only for a configured number of tenants.
busiest AS MATERIALIZED (
    SELECT * FROM tenant ORDER BY running + waiting DESC, tenant_id LIMIT %(busiest)s
),
-- The same for the values of the configured labels, of tenants with live executions.
valued AS MATERIALIZED (
    SELECT
        k.key, t.labels ->> k.key AS value, sum(b.running)::int AS running,
        sum(b.waiting)::int AS waiting,
        row_number() OVER (
            PARTITION BY k.key ORDER BY sum(b.running + b.waiting) DESC, t.labels ->> k.key
        ) AS place
    FROM unnest(%(label_keys)s::text[]) AS k (key)
    CROSS JOIN tenant AS b
    JOIN tenantcron.tenant AS t ON t.id = b.tenant_id
    WHERE t.labels ->> k.key IS NOT NULL
    GROUP BY 1, 2
),
-- Further values are summed up.
label AS MATERIALIZED (
    SELECT
        key, CASE WHEN place <= %(label_values)s THEN value ELSE 'other' END AS value,
        sum(running)::int AS running, sum(waiting)::int AS waiting
    FROM valued
    GROUP BY 1, 2
),
-- The oldest event of each webhook, by index, so that the cost does not depend on the backlog.
webhook AS MATERIALIZED (
    SELECT
        w.name, w.dropped,
        coalesce(extract(epoch FROM greatest(clock.now - oldest.placed_at, interval '0')), 0)::float8
            AS lag
    FROM tenantcron.webhook AS w
    CROSS JOIN clock
    LEFT JOIN LATERAL (
        SELECT e.placed_at
        FROM tenantcron.webhook_event AS e
        WHERE e.webhook_name = w.name
        ORDER BY e.placed_at
        LIMIT 1
    ) AS oldest ON true
    WHERE w.disabled_at IS NULL
),
-- The same for event buses: the first event after the position, by key.
bus AS MATERIALIZED (
    SELECT
        b.name, b.dropped,
        coalesce(extract(epoch FROM greatest(clock.now - oldest.placed_at, interval '0')), 0)::float8
            AS lag
    FROM tenantcron.event_bus AS b
    CROSS JOIN clock
    LEFT JOIN LATERAL (
        SELECT e.placed_at
        FROM tenantcron.bus_event AS e
        WHERE e.place > b.last_published
        ORDER BY e.place
        LIMIT 1
    ) AS oldest ON true
),
-- Quarantined and automatically paused schedules do not fire, which may go unnoticed.
stopped AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE fault IS NOT NULL) AS quarantined,
        count(*) FILTER (WHERE fault IS NULL AND paused_reason = %(auto_paused)s) AS auto_paused
    FROM tenantcron.schedule_cursor
    WHERE fault IS NOT NULL OR paused_at IS NOT NULL
)
SELECT
    coalesce((SELECT sum(running) FROM tenant), 0)::int AS running,
    (SELECT overall FROM allowed) AS running_limit,
    (
        SELECT count(*)
        FROM tenant AS b
        JOIN tenantcron.tenant AS t ON t.id = b.tenant_id
        CROSS JOIN allowed
        WHERE b.running >= coalesce(t.max_concurrent, allowed.per_tenant)
    ) AS tenants_at_limit,
    array(SELECT p.priority FROM priority AS p ORDER BY p.priority) AS priorities,
    array(SELECT p.waiting FROM priority AS p ORDER BY p.priority) AS waiting,
    (
        SELECT extract(epoch FROM greatest(clock.now - min(first), interval '0'))::float8 FROM live
    ) AS longest_wait,
    coalesce((SELECT sum(waiting - future) FROM live), 0)::int AS startable,
    coalesce((SELECT sum(future) FROM live), 0)::int AS future,
    (
        SELECT extract(epoch FROM greatest(clock.now - min(next_run_at), interval '0'))::float8
        FROM tenantcron.schedule_cursor
        WHERE enabled AND fault IS NULL AND next_run_at IS NOT NULL
    ) AS cursor_lag,
    (
        SELECT extract(epoch FROM greatest(clock.now - min(execute_at), interval '0'))::float8
        FROM tenantcron.task
        WHERE fired_at IS NULL
    ) AS task_lag,
    (
        SELECT count(*)
        FROM tenantcron.schedule_cursor
        WHERE
            enabled AND fault IS NULL AND next_run_at IS NOT NULL
            AND next_run_at < clock.now - %(overdue)s::interval
    ) AS overdue,
    (SELECT quarantined FROM stopped) AS quarantined,
    (SELECT auto_paused FROM stopped) AS auto_paused,
    (
        SELECT count(*) FROM tenantcron.tenant WHERE schedule_revision <> synced_revision
    ) AS tenants_not_synced,
    (
        SELECT count(*) FROM tenantcron.worker WHERE seen_at >= clock.now - %(gone)s::interval
    ) AS replicas,
    array(SELECT w.name FROM webhook AS w ORDER BY w.name) AS webhooks,
    array(SELECT w.lag FROM webhook AS w ORDER BY w.name) AS webhook_lags,
    array(SELECT w.dropped FROM webhook AS w ORDER BY w.name) AS webhook_drops,
    array(SELECT b.name FROM bus AS b ORDER BY b.name) AS buses,
    array(SELECT b.lag FROM bus AS b ORDER BY b.name) AS bus_lags,
    array(SELECT b.dropped FROM bus AS b ORDER BY b.name) AS bus_drops,
    array(SELECT b.tenant_id FROM busiest AS b ORDER BY b.tenant_id) AS busiest,
    array(SELECT b.running FROM busiest AS b ORDER BY b.tenant_id) AS busiest_running,
    array(SELECT b.waiting FROM busiest AS b ORDER BY b.tenant_id) AS busiest_waiting,
    array(SELECT l.key FROM label AS l ORDER BY l.key, l.value) AS label_keys,
    array(SELECT l.value FROM label AS l ORDER BY l.key, l.value) AS label_values,
    array(SELECT l.running FROM label AS l ORDER BY l.key, l.value) AS label_running,
    array(SELECT l.waiting FROM label AS l ORDER BY l.key, l.value) AS label_waiting
FROM clock
