-- Undo a claim: the attempt does not count. An execution that was cancelled in the meantime ends.
UPDATE tenantcron.execution AS e
SET
    state = CASE
        WHEN e.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
        WHEN e.attempt > 1 THEN 'RETRYING'
        ELSE 'PENDING'
    END,
    reason = e.cancel_reason,
    reason_code = CASE
        WHEN e.cancel_requested_at IS NOT NULL THEN coalesce(e.cancel_reason_code, %(cancelled)s)
    END,
    finished_at = e.cancel_requested_at,
    attempt = e.attempt - 1,
    lease_token = NULL,
    lease_until = NULL,
    worker_id = NULL,
    started_at = NULL,
    -- An execution that this replica cannot run gets the requirement of its definition.
    requires = coalesce(held.requires, e.requires)
FROM unnest(
    %(ids)s::uuid[], %(scheduled_for)s::timestamptz[], %(tokens)s::uuid[], %(requires)s::text[]
) AS held (id, scheduled_for, token, requires)
WHERE
    e.id = held.id AND e.scheduled_for = held.scheduled_for
    AND e.state = 'RUNNING' AND e.lease_token = held.token
