-- Whether these executions may have tokens now, and which key signs them. One row for each execution
-- that is running with the given lease, none if it has ended or has another lease. The time is
-- returned, because the times in the tokens must come from the same clock.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) AS a (id, token)
),
clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
-- The key that was activated last. There are only a few.
signing AS MATERIALIZED (
    SELECT k.kid
    FROM tenantcron.signing_key AS k
    WHERE k.active_from <= (SELECT c.now FROM clock AS c) AND k.retired_at IS NULL
    ORDER BY k.active_from DESC, k.kid COLLATE "C" DESC
    LIMIT 1
)
SELECT
    e.id,
    e.lease_token,
    e.lease_until > c.now,
    t.status,
    -- Null: no scheduler of this service has ever been declared.
    i.status,
    c.now,
    (SELECT s.kid FROM signing AS s)
FROM asked AS a
CROSS JOIN clock AS c
JOIN tenantcron.execution_live AS e
    ON a.id = e.id AND a.token = e.lease_token AND e.state = 'RUNNING'
JOIN tenantcron.tenant AS t ON e.tenant_id = t.id
LEFT JOIN tenantcron.identity AS i ON e.tenant_id = i.tenant_id AND i.id = %(identity)s::text
