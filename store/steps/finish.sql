WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
-- The last ones only have an id and a token: they succeeded without details.
given AS MATERIALIZED (
    SELECT
        id, token, coalesce(state, 'SUCCEEDED') AS state, reason_code, reason, wait, outcome, error,
        auto_pause_after, http_status, answer, log, result, coalesce(suspicion, 0) AS suspicion,
        coalesce(is_lost, false) AS is_lost
    FROM unnest(
        %(ids)s::uuid[], %(tokens)s::uuid[], %(states)s::text[],
        %(reason_codes)s::text[], %(reasons)s::text[], %(waits)s::float8[], %(outcomes)s::text[], %(errors)s::text[], %(auto_pause_after)s::int[],
        %(http_statuses)s::int[], %(answers)s::text[], %(suspicions)s::int[], %(logs)s::text[],
        %(results)s::text[], %(lost)s::boolean[]
    ) AS g (
        id, token, state, reason_code, reason, wait, outcome, error, auto_pause_after, http_status,
        answer, suspicion, log, result, is_lost
    )
),
-- The fence: only the holder of the lease may end an execution. Retries wait for a slot; an execution
-- that was asked to stop is not retried.
ended AS (
    UPDATE tenantcron.execution AS e
    SET
        state = CASE
            WHEN g.state = 'RETRYING' AND e.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
            ELSE g.state
        END,
        reason = CASE
            WHEN g.state = 'RETRYING' THEN coalesce(e.cancel_reason, g.reason) ELSE g.reason
        END,
        reason_code = CASE
            WHEN g.state IN ('RETRYING', 'CANCELLED') AND e.cancel_requested_at IS NOT NULL
            THEN coalesce(e.cancel_reason_code, %(cancelled)s) ELSE g.reason_code
        END,
        -- A lost execution keeps its place in the queue.
        not_before = CASE
            WHEN g.state = 'RETRYING' AND NOT g.is_lost
            THEN clock.now + make_interval(secs => g.wait) ELSE e.not_before
        END,
        start_deadline = NULL,
        attempts_allowed = e.attempts_allowed + g.is_lost::int,
        losses = e.losses + g.is_lost::int,
        suspicion = g.suspicion,
        lease_token = NULL,
        lease_until = NULL,
        finished_at = CASE
            WHEN g.state <> 'RETRYING' OR e.cancel_requested_at IS NOT NULL THEN clock.now
        END
    FROM given AS g, clock
    WHERE
        e.id = g.id AND e.state = 'RUNNING' AND e.lease_token = g.token
    RETURNING
        e.id, g.token, e.scheduled_for, e.schedule_id, e.attempt, e.worker_id, e.started_at, e.state,
        e.reason_code, e.reason, g.outcome, g.error, g.auto_pause_after, g.http_status, g.answer,
        g.log, g.result
),
-- A plain success has no row here: the row of the execution describes it.
attempts AS (
    INSERT INTO tenantcron.execution_attempt (
        execution_id, scheduled_for, attempt, worker_id, started_at, finished_at, outcome, error,
        http_status, answer, log, result
    )
    SELECT
        id, scheduled_for, attempt, worker_id, started_at, clock.now, outcome, error,
        http_status, answer, log, result::jsonb
    FROM ended, clock
    WHERE outcome IS NOT NULL
),
-- A success resets the count of failures; usually it is zero, and nothing is written.
tally AS MATERIALIZED (
    SELECT
        schedule_id,
        bool_or(state = 'SUCCEEDED') AS succeeded,
        count(*) FILTER (WHERE state = 'DEAD') AS dead,
        max(auto_pause_after) AS auto_pause_after
    FROM ended
    WHERE state IN ('SUCCEEDED', 'DEAD')
    GROUP BY schedule_id
),
-- The schedules whose count changes; an index finds the few with failures.
affected AS MATERIALIZED (
    SELECT t.schedule_id FROM tally AS t WHERE t.dead > 0
    UNION
    SELECT f.schedule_id
    FROM tally AS t
    JOIN tenantcron.schedule_cursor AS f
        ON f.schedule_id = t.schedule_id AND f.consecutive_failures > 0
),
-- Locked in a fixed order, to prevent deadlocks. A pause that is in force does not change.
counters AS MATERIALIZED (
    SELECT
        c.schedule_id,
        CASE WHEN t.succeeded THEN 0 ELSE c.consecutive_failures + t.dead END AS failures,
        NOT t.succeeded AND t.auto_pause_after > 0
        AND c.consecutive_failures + t.dead >= t.auto_pause_after
        AND (c.paused_at IS NULL OR c.paused_until <= clock.now) IS TRUE AS pauses
    FROM affected
    JOIN tally AS t ON t.schedule_id = affected.schedule_id
    JOIN tenantcron.schedule_cursor AS c ON c.schedule_id = affected.schedule_id
    CROSS JOIN clock
    ORDER BY c.schedule_id
    FOR NO KEY UPDATE OF c
),
counted AS (
    UPDATE tenantcron.schedule_cursor AS c
    SET
        consecutive_failures = n.failures,
        paused_at = CASE WHEN n.pauses THEN clock.now ELSE c.paused_at END,
        paused_by = CASE WHEN n.pauses THEN %(actor_id)s ELSE c.paused_by END,
        paused_reason = CASE
            WHEN n.pauses THEN %(auto_paused)s ELSE c.paused_reason
        END,
        paused_until = CASE WHEN n.pauses THEN NULL ELSE c.paused_until END
    FROM counters AS n, clock
    WHERE c.schedule_id = n.schedule_id
    RETURNING c.schedule_id, n.pauses
),
-- Returned instead of the accepted ones, because there are usually none.
refused AS MATERIALIZED (
    SELECT g.id, g.token
    FROM given AS g
    WHERE NOT EXISTS (SELECT FROM ended AS e WHERE e.id = g.id AND e.token = g.token)
)
-- The freed slots are useful if anything is pending that this replica can run, including executions
-- that have just become pending.
SELECT
    array(SELECT id FROM refused ORDER BY id, token) AS refused_ids,
    array(SELECT token FROM refused ORDER BY id, token) AS refused_tokens,
    array(SELECT schedule_id FROM counted WHERE pauses) AS paused,
    EXISTS (SELECT FROM ended WHERE state = 'RETRYING')
        OR EXISTS (
            SELECT FROM tenantcron.execution_live
            WHERE
                state <> 'RUNNING'
                AND (%(requires)s::text[] IS NULL OR requires = ANY(%(requires)s::text[]))
        ) AS waiting,
    array(SELECT id FROM ended WHERE state = 'CANCELLED' ORDER BY id) AS cancelled,
    array(SELECT reason_code FROM ended WHERE state = 'CANCELLED' ORDER BY id) AS cancel_codes,
    array(SELECT reason FROM ended WHERE state = 'CANCELLED' ORDER BY id) AS cancel_details,
    (SELECT now FROM clock) AS now,
    (
        SELECT p.since
        FROM tenantcron.share_period AS p, clock
        WHERE p.waited_at > clock.now - %(scarce_for)s::interval
    ) AS scarce_since
