-- Columns of a view cannot be removed, so it is created again.
DROP VIEW tenantcron.metering;
CREATE VIEW tenantcron.metering AS
SELECT
    e.tenant_id,
    date_trunc('month', e.scheduled_for AT TIME ZONE 'UTC')::date AS month,
    count(*) FILTER (WHERE e.state = 'SUCCEEDED') AS succeeded,
    count(*) FILTER (WHERE e.state = 'DEAD') AS dead,
    count(*) FILTER (WHERE e.state = 'CANCELLED') AS cancelled,
    count(*) FILTER (WHERE e.state = 'SKIPPED') AS skipped,
    count(*) FILTER (WHERE e.state = 'MISSED') AS missed,
    count(*) FILTER (WHERE e.state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')) AS unfinished,
    sum(coalesce(a.attempts, 0) + coalesce(own.attempts, 0))::bigint AS attempts,
    sum(coalesce(a.seconds, 0) + coalesce(own.seconds, 0))::float8 AS run_seconds
FROM tenantcron.execution AS e
LEFT JOIN (
    SELECT
        execution_id, scheduled_for, count(*) AS attempts, max(attempt) AS last,
        sum(extract(epoch FROM finished_at - started_at)) AS seconds
    FROM tenantcron.execution_attempt
    WHERE outcome <> 'REFUSED'
    GROUP BY execution_id, scheduled_for
) AS a ON a.execution_id = e.id AND a.scheduled_for = e.scheduled_for
LEFT JOIN LATERAL (
    SELECT 1 AS attempts, extract(epoch FROM e.finished_at - e.started_at) AS seconds
    WHERE e.state = 'SUCCEEDED' AND e.attempt IS DISTINCT FROM a.last
) AS own ON true
GROUP BY 1, 2;
