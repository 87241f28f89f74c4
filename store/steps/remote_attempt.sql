-- The attempt of a remote worker that reports its end, locked until the transaction ends it. The mark
-- distinguishes it from an attempt that a replica ended.
UPDATE tenantcron.execution AS e
SET
    reported_attempt = e.attempt,
    heartbeat_at = clock.now,
    progress = coalesce(%(progress)s::smallint, e.progress),
    progress_text = coalesce(%(progress_text)s::text, e.progress_text)
FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS clock
WHERE
    e.id = %(id)s AND e.state = 'RUNNING'
    AND e.handed_over_attempt = e.attempt AND e.handed_over_lease = %(digest)s
    AND e.attempt_deadline > clock.now
    AND (%(delivery)s::text IS NULL OR e.delivery IS NULL OR e.delivery = %(delivery)s::text)
RETURNING
    e.id, e.scheduled_for, e.tenant_id,
    coalesce((SELECT t.schema_name FROM tenantcron.tenant AS t WHERE t.id = e.tenant_id), '')
        AS schema_name,
    e.schedule_id, e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed,
    e.losses, e.suspicion, e.actor_id, e.actor_type, e.actor_source, e.lease_token, e.started_at,
    e.cancel_requested_at IS NOT NULL AS cancel_requested, e.cancel_reason
