-- Who still holds its lease keeps it for another while; what does not come back was taken away, or
-- is being ended at this very moment.
WITH held AS MATERIALIZED (
    SELECT e.id
    FROM tenantcron.execution_live AS e
    JOIN unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS h (id, token)
        ON e.id = h.id AND e.lease_token = h.token
    WHERE e.state = 'RUNNING'
    FOR NO KEY UPDATE OF e SKIP LOCKED
)
UPDATE tenantcron.execution_live AS e
SET lease_until = coalesce(%(at)s::timestamptz, statement_timestamp()) + %(lease)s::interval
FROM held
WHERE e.id = held.id
RETURNING e.id, e.lease_token, e.cancel_reason
