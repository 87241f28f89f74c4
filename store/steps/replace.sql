-- Schedules whose next occurrence waits for the previous one to stop, if this replica can run it.
WITH replacing AS (
    SELECT DISTINCT schedule_id
    FROM tenantcron.execution_live
    WHERE
        state <> 'RUNNING' AND state NOT IN ('RETRYING', 'FAILED')
        AND requires = ANY(%(requires)s::text[])
        AND overlap = 'cancel_running' AND attempt = 0 AND actor_source <> 'manual'
        AND not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
)
-- A running execution is asked to stop, and its worker ends it. One that waits for its next attempt
-- ends here. A remote worker has two intervals, also if it has not begun yet.
UPDATE tenantcron.execution AS e
SET
    cancel_requested_at = coalesce(%(at)s::timestamptz, statement_timestamp()),
    cancel_reason = %(words)s,
    cancel_reason_code = %(replaced)s::text,
    state = CASE e.state WHEN 'RUNNING' THEN e.state ELSE 'CANCELLED' END,
    reason = NULL,
    reason_code = CASE WHEN e.state <> 'RUNNING' THEN %(replaced)s::text END,
    finished_at = CASE
        WHEN e.state <> 'RUNNING' THEN coalesce(%(at)s::timestamptz, statement_timestamp())
    END,
    lease_until = CASE
        WHEN e.state = 'RUNNING' AND e.handed_over_attempt = e.attempt
        THEN least(
            e.lease_until,
            coalesce(%(at)s::timestamptz, statement_timestamp()) + 2 * e.heartbeat_every
        )
        ELSE e.lease_until
    END
FROM replacing
WHERE
    e.schedule_id = replacing.schedule_id AND e.state IN ('RUNNING', 'RETRYING', 'FAILED')
    AND (e.cancel_requested_at IS NULL OR e.state <> 'RUNNING')
