-- What each tenant has used in a month of UTC, for bills; as far back as the history goes. It counts
-- rows, so no counter can diverge from them. A submission counts in the month it was made in, its
-- execution in the month it was scheduled for. A condition on the tenant or month reaches both parts.
CREATE OR REPLACE VIEW tenantcron.metering AS
SELECT
    used.tenant_id,
    used.month,
    sum(used.succeeded)::bigint AS succeeded,
    sum(used.dead)::bigint AS dead,
    sum(used.cancelled)::bigint AS cancelled,
    sum(used.skipped)::bigint AS skipped,
    sum(used.missed)::bigint AS missed,
    sum(used.unfinished)::bigint AS unfinished,
    sum(used.attempts)::bigint AS attempts,
    sum(used.run_seconds)::float8 AS run_seconds,
    sum(used.tasks_submitted)::bigint AS tasks_submitted,
    sum(used.payload_bytes)::bigint AS payload_bytes
FROM (
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
        sum(coalesce(a.seconds, 0) + coalesce(own.seconds, 0))::float8 AS run_seconds,
        0::bigint AS tasks_submitted,
        0::bigint AS payload_bytes
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
    GROUP BY 1, 2
    UNION ALL
    SELECT
        t.tenant_id,
        date_trunc('month', t.submitted_at AT TIME ZONE 'UTC')::date AS month,
        0, 0, 0, 0, 0, 0, 0, 0,
        count(*) AS tasks_submitted,
        sum(t.payload_bytes) AS payload_bytes
    FROM tenantcron.task AS t
    GROUP BY 1, 2
) AS used
GROUP BY 1, 2;
