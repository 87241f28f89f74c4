-- Executions whose lease has expired: the replica was lost, or a remote worker sent no heartbeat or
-- has reached the timeout. One replica recovers each.
SELECT
    e.id, e.scheduled_for, e.tenant_id, coalesce(t.schema_name, '') AS schema_name, e.schedule_id,
    e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed,
    e.losses, e.suspicion, e.actor_id, e.actor_type, e.actor_source, e.lease_token, e.started_at,
    e.worker_id, e.cancel_requested_at IS NOT NULL AS cancel_requested,
    e.handed_over_attempt IS NOT DISTINCT FROM e.attempt AS handed_over,
    e.attempt_deadline <= coalesce(%(at)s::timestamptz, statement_timestamp()) AS timed_out,
    e.attempt_deadline - e.started_at AS timeout, e.heartbeat_every
FROM tenantcron.execution AS e
LEFT JOIN tenantcron.tenant AS t ON t.id = e.tenant_id
WHERE
    e.state = 'RUNNING'
    AND e.lease_until < coalesce(%(at)s::timestamptz, statement_timestamp())
ORDER BY e.lease_until
LIMIT %(batch)s
FOR UPDATE OF e SKIP LOCKED
