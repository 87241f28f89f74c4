-- Renew the lease of an attempt by a heartbeat of its remote worker, until its deadline. After a
-- cancellation the lease ends: the worker has one interval to hear of it, and one to stop. A broker may
-- deliver a message again whose first worker still runs. The second one takes over only if the first
-- one is silent, shortly before the lease ends.
UPDATE tenantcron.execution AS e
SET
    lease_until = least(
        clock.now + e.heartbeat_every,
        e.attempt_deadline,
        e.cancel_requested_at + 2 * e.heartbeat_every
    ),
    heartbeat_at = clock.now,
    progress = coalesce(%(progress)s::smallint, e.progress),
    progress_text = coalesce(%(progress_text)s::text, e.progress_text),
    delivery = coalesce(%(delivery)s::text, e.delivery)
FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS clock
WHERE
    e.id = %(id)s AND e.state = 'RUNNING'
    AND e.handed_over_attempt = e.attempt AND e.handed_over_lease = %(digest)s
    AND e.attempt_deadline > clock.now
    AND (
        %(delivery)s::text IS NULL OR e.delivery IS NULL OR e.delivery = %(delivery)s::text
        OR e.heartbeat_at + %(alive)s * e.heartbeat_every <= clock.now
    )
RETURNING
    e.cancel_requested_at IS NOT NULL AS cancel, e.cancel_reason_code, e.cancel_reason,
    e.attempt_deadline AS deadline, e.heartbeat_every AS heartbeat
