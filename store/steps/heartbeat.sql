-- Who still holds its lease keeps it for another while. A row that somebody has locked is left as it
-- is until the next time: they may be ending it, and whoever ends one moves it away.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS g (id, token)
),
free_to_change AS MATERIALIZED (
    SELECT e.id
    FROM tenantcron.execution_live AS e
    JOIN given AS g ON e.id = g.id AND e.lease_token = g.token
    WHERE e.state = 'RUNNING'
    FOR NO KEY UPDATE OF e SKIP LOCKED
),
prolonged AS (
    UPDATE tenantcron.execution_live AS e
    SET lease_until = coalesce(%(at)s::timestamptz, statement_timestamp()) + %(lease)s::interval
    FROM free_to_change AS f
    WHERE e.id = f.id
)
-- Held is what has the token, locked or not; only what does not come back was taken away.
SELECT e.id, e.lease_token, e.cancel_reason
FROM tenantcron.execution_live AS e
JOIN given AS g ON e.id = g.id AND e.lease_token = g.token
WHERE e.state = 'RUNNING'
