-- As remote_heartbeat, for the heartbeats of many workers, without locked rows as in remote_attempts.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
free AS MATERIALIZED (
    SELECT e.id, g.progress, g.progress_text, g.delivery
    FROM unnest(
        %(ids)s::uuid[], %(digests)s::text[], %(progress)s::smallint[], %(progress_texts)s::text[],
        %(deliveries)s::text[]
    ) AS g (id, digest, progress, progress_text, delivery)
    JOIN tenantcron.execution AS e ON e.id = g.id
    CROSS JOIN clock
    WHERE
        e.state = 'RUNNING'
        AND e.handed_over_attempt = e.attempt AND e.handed_over_lease = g.digest
        AND e.attempt_deadline > clock.now
        AND (
            g.delivery IS NULL OR e.delivery IS NULL OR e.delivery = g.delivery
            OR e.heartbeat_at + %(alive)s * e.heartbeat_every <= clock.now
        )
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE tenantcron.execution AS e
SET
    lease_until = least(
        clock.now + e.heartbeat_every,
        e.attempt_deadline,
        e.cancel_requested_at + 2 * e.heartbeat_every
    ),
    heartbeat_at = clock.now,
    progress = coalesce(f.progress, e.progress),
    progress_text = coalesce(f.progress_text, e.progress_text),
    delivery = coalesce(f.delivery, e.delivery)
FROM free AS f, clock
WHERE e.id = f.id AND e.state = 'RUNNING'
RETURNING
    e.id, e.cancel_requested_at IS NOT NULL AS cancel, e.cancel_reason_code, e.cancel_reason,
    e.attempt_deadline AS deadline, e.heartbeat_every AS heartbeat
