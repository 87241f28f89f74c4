-- Tasks that are due, or will be soon, in the order of their times. One replica locks each task; the others skip it. None while a
-- replica of the release before runs: it would end the executions.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
due AS MATERIALIZED (
    SELECT t.ctid
    FROM tenantcron.task AS t
    WHERE
        %(id)s::uuid IS NULL AND t.fired_at IS NULL
        AND t.execute_at
        <= coalesce(%(at)s::timestamptz, statement_timestamp()) + %(ahead)s::interval
        AND NOT (SELECT tenantcron.has_former_replica())
    ORDER BY t.execute_at
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
),
-- Or one task by its id, whenever it is due: to cancel it, its execution must exist.
named AS MATERIALIZED (
    SELECT t.ctid FROM tenantcron.task AS t WHERE t.id = %(id)s::uuid FOR NO KEY UPDATE
),
-- The mark is the time of the task, or now if that is later; now, for a task that is cancelled before.
-- The mark and the execution are written by one statement: both exist, or neither. A time before the
-- retained history has no partition, so it moves to the beginning of that. The rows are locked, so they
-- do not move. By their places each is read once, whatever the statistics are: a join would compare all
-- pairs if the table was empty when it was analysed. A task that was rescheduled during this statement
-- is invisible to it, and stays due.
fired AS (
    UPDATE tenantcron.task AS t
    SET
        fired_at = CASE
            WHEN %(id)s::uuid IS NULL THEN greatest(t.execute_at, clock.now) ELSE clock.now
        END,
        execute_at = greatest(t.execute_at, clock.now - %(retention)s::interval)
    FROM clock
    WHERE
        t.ctid = ANY (ARRAY(SELECT ctid FROM due UNION ALL SELECT ctid FROM named))
        AND t.fired_at IS NULL
    RETURNING t.*
),
added AS (
    INSERT INTO tenantcron.execution (
        id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
        overlap, priority, not_before, attempts_allowed, actor_id, actor_type, actor_source,
        created_at, requires
    )
    SELECT
        f.id, f.tenant_id, f.id, left('task:' || f.saga_name, 128), f.saga_name, f.id,
        -- A task that is fired before its time is cancelled; only present months have a partition.
        least(f.execute_at, f.fired_at), 'PENDING', 'allow', f.priority,
        least(f.execute_at, f.fired_at),
        -- Rows can be edited manually.
        CASE jsonb_typeof(f.definition #> '{retry,max_attempts}')
            WHEN 'number'
                THEN least(greatest((f.definition #>> '{retry,max_attempts}')::numeric, 1), 20)::int
            -- The default of the settings, as in tenantcron.submit_tasks_at.
            ELSE 3
        END,
        f.actor_id, f.actor_type, %(source)s, clock.now, f.requires
    FROM fired AS f, clock
    ON CONFLICT DO NOTHING
)
SELECT requires, count(*)::int AS number FROM fired GROUP BY requires
