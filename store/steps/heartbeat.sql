-- Renew the leases that are still held. A row that another transaction has locked is skipped until the
-- next heartbeat: it may be ending the execution, which moves the row to another partition.
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
    -- A remote worker may hold a longer lease than the replica that is still calling it.
    SET lease_until = greatest(
        coalesce(%(at)s::timestamptz, statement_timestamp()) + %(lease)s::interval,
        CASE WHEN e.handed_over_attempt = e.attempt THEN e.lease_until END
    )
    FROM free_to_change AS f
    WHERE e.id = f.id
)
-- A lease is held if the row has the token, locked or not; a row that is not returned has lost it.
SELECT e.id, e.lease_token, e.cancel_reason
FROM tenantcron.execution_live AS e
JOIN given AS g ON e.id = g.id AND e.lease_token = g.token
WHERE e.state = 'RUNNING'
