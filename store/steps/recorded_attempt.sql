-- The recorded end of an attempt that a remote worker had; no row for any other attempt. A plain
-- success has no row in execution_attempt.
SELECT
    e.state, e.attempt, e.handed_over_attempt,
    coalesce(
        a.outcome,
        CASE WHEN e.state = 'SUCCEEDED' AND e.attempt = e.handed_over_attempt THEN 'SUCCEEDED' END
    ) AS outcome,
    e.reported_attempt IS NOT DISTINCT FROM e.handed_over_attempt AS reported,
    e.attempt_deadline <= coalesce(%(at)s::timestamptz, statement_timestamp()) AS timed_out,
    e.state = 'RUNNING' AND e.attempt = e.handed_over_attempt AS runs
FROM tenantcron.execution AS e
LEFT JOIN tenantcron.execution_attempt AS a
    ON
        a.execution_id = e.id AND a.scheduled_for = e.scheduled_for
        AND a.attempt = e.handed_over_attempt
WHERE e.id = %(id)s AND e.handed_over_lease = %(digest)s
