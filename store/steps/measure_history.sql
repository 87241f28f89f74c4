-- The metrics of the cluster that cost more than those in measure.sql, in one row. They are read once a
-- minute. Dead executions and waiting tasks are read by their partial indexes, up to a limit. The
-- cursors are read in full, because a schedule in any state counts.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
schedule AS MATERIALIZED (
    SELECT
        CASE
            WHEN fault IS NOT NULL THEN 'quarantined'
            WHEN NOT enabled THEN 'disabled'
            WHEN paused_at IS NOT NULL AND (paused_until IS NULL OR paused_until > clock.now)
                THEN CASE WHEN paused_reason = %(auto_paused)s THEN 'auto_paused' ELSE 'paused' END
            WHEN next_run_at IS NULL THEN 'ended'
            ELSE 'active'
        END AS state,
        count(*)::int AS number
    FROM tenantcron.schedule_cursor
    CROSS JOIN clock
    GROUP BY 1
),
-- Every state has a value, so that a series does not vanish.
state AS MATERIALIZED (
    SELECT s.state, coalesce(schedule.number, 0) AS number
    FROM unnest(ARRAY['active', 'paused', 'auto_paused', 'quarantined', 'disabled', 'ended']) AS s (state)
    LEFT JOIN schedule ON schedule.state = s.state
),
newest AS MATERIALIZED (
    SELECT saga_name
    FROM tenantcron.execution
    WHERE state = 'DEAD' AND scheduled_for >= (SELECT now FROM clock) - %(dead_for)s::interval
    ORDER BY scheduled_for DESC, id DESC
    LIMIT %(most_dead)s
),
ranked AS MATERIALIZED (
    SELECT
        saga_name, count(*) AS number,
        row_number() OVER (ORDER BY count(*) DESC, saga_name) AS place
    FROM newest
    GROUP BY saga_name
),
-- Further sagas are summed up.
dead AS MATERIALIZED (
    SELECT
        CASE WHEN place <= %(sagas)s THEN saga_name ELSE 'other' END AS saga,
        sum(number)::int AS number
    FROM ranked
    GROUP BY 1
),
-- The order makes it read the index: in the table, waiting tasks come after all that were fired.
due AS MATERIALIZED (
    SELECT count(*)::int AS number
    FROM (
        SELECT
        FROM tenantcron.task
        WHERE fired_at IS NULL AND execute_at <= (SELECT now FROM clock)
        ORDER BY execute_at
        LIMIT %(most_tasks)s
    ) AS t
),
future AS MATERIALIZED (
    SELECT count(*)::int AS number
    FROM (
        SELECT
        FROM tenantcron.task
        WHERE fired_at IS NULL AND execute_at > (SELECT now FROM clock)
        ORDER BY execute_at
        LIMIT %(most_tasks)s
    ) AS t
)
SELECT
    array(SELECT s.state FROM state AS s ORDER BY s.state) AS schedule_states,
    array(SELECT s.number FROM state AS s ORDER BY s.state) AS schedules,
    array(SELECT d.saga FROM dead AS d ORDER BY d.saga)::text[] AS dead_sagas,
    array(SELECT d.number FROM dead AS d ORDER BY d.saga) AS dead,
    (SELECT number FROM due) AS tasks_due,
    -- Above the limit, the statistics of the index estimate the number: it has all waiting tasks.
    (
        SELECT
            CASE
                WHEN future.number < %(most_tasks)s THEN future.number
                ELSE greatest(future.number, c.reltuples::bigint - due.number)
            END
        FROM future
        CROSS JOIN due
        JOIN pg_catalog.pg_class AS c ON c.oid = 'tenantcron.task_due_idx'::regclass
    ) AS tasks_future,
    (
        SELECT count(*)
        FROM pg_catalog.pg_locks AS l
        JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
        WHERE NOT l.granted AND a.datname = current_database()
    )::int AS lock_waits,
    (
        SELECT max(extract(epoch FROM coalesce(replay_lag, interval '0')))::float8
        FROM pg_catalog.pg_stat_replication
        WHERE state = 'streaming'
    ) AS standby_lag
