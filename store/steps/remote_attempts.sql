-- As remote_attempt, for the reports of many workers. Rows that another transaction has locked are
-- skipped, because one of them would delay all others.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
free AS MATERIALIZED (
    SELECT e.id, g.progress, g.progress_text
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
        AND (g.delivery IS NULL OR e.delivery IS NULL OR e.delivery = g.delivery)
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE tenantcron.execution AS e
SET
    reported_attempt = e.attempt,
    heartbeat_at = clock.now,
    progress = coalesce(f.progress, e.progress),
    progress_text = coalesce(f.progress_text, e.progress_text)
FROM free AS f, clock
WHERE e.id = f.id AND e.state = 'RUNNING'
RETURNING
    e.id, e.scheduled_for, e.tenant_id,
    coalesce((SELECT t.schema_name FROM tenantcron.tenant AS t WHERE t.id = e.tenant_id), '')
        AS schema_name,
    e.schedule_id, e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed,
    e.losses, e.suspicion, e.actor_id, e.actor_type, e.actor_source, e.lease_token, e.started_at,
    e.cancel_requested_at IS NOT NULL AS cancel_requested, e.cancel_reason
