-- Hand the lease of a running attempt over to a remote worker, before it is called. The worker has at
-- least as long for its first heartbeat as the replica has for its next one, and longer if the request
-- may wait in a queue.
UPDATE tenantcron.execution AS e
SET
    handed_over_attempt = e.attempt,
    handed_over_lease = %(digest)s,
    handed_over_at = clock.now,
    heartbeat_every = %(heartbeat)s,
    heartbeat_at = NULL,
    attempt_deadline = %(deadline)s,
    progress = NULL,
    progress_text = NULL,
    delivery = NULL,
    lease_until = least(greatest(e.lease_until, clock.now + %(first)s), %(deadline)s)
FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS clock
WHERE
    e.id = %(id)s AND e.scheduled_for = %(scheduled_for)s
    AND e.state = 'RUNNING' AND e.lease_token = %(token)s
