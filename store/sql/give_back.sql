-- As if it had never been claimed: the attempt does not count.
UPDATE tenantcron.execution AS e
SET
    state = CASE WHEN e.attempt > 1 THEN 'FAILED' ELSE 'PENDING' END,
    attempt = e.attempt - 1,
    lease_token = NULL,
    lease_until = NULL,
    worker_id = NULL,
    started_at = NULL
FROM unnest(%(ids)s::uuid[], %(scheduled_for)s::timestamptz[], %(tokens)s::uuid[])
    AS held (id, scheduled_for, token)
WHERE
    e.id = held.id AND e.scheduled_for = held.scheduled_for
    AND e.state = 'RUNNING' AND e.lease_token = held.token
