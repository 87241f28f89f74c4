-- As hand_over, for many attempts of a replica. Rows that another transaction has locked are skipped,
-- because one of them would delay all others.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
free AS MATERIALIZED (
    SELECT e.id, g.digest, g.heartbeat, g.first, g.deadline
    FROM unnest(
        %(ids)s::uuid[], %(tokens)s::uuid[], %(digests)s::text[], %(heartbeats)s::float8[],
        %(firsts)s::float8[], %(deadlines)s::timestamptz[]
    ) AS g (id, token, digest, heartbeat, first, deadline)
    JOIN tenantcron.execution AS e ON e.id = g.id AND e.lease_token = g.token
    WHERE e.state = 'RUNNING'
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE tenantcron.execution AS e
SET
    handed_over_attempt = e.attempt,
    handed_over_lease = f.digest,
    handed_over_at = clock.now,
    heartbeat_every = make_interval(secs => f.heartbeat),
    heartbeat_at = NULL,
    attempt_deadline = f.deadline,
    progress = NULL,
    progress_text = NULL,
    delivery = NULL,
    lease_until = least(
        greatest(e.lease_until, clock.now + make_interval(secs => f.first)), f.deadline
    )
FROM free AS f, clock
WHERE e.id = f.id AND e.state = 'RUNNING'
RETURNING e.id
