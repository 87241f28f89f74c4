-- The lease of an execution, and the other conditions of its tokens: always one row. If a caller is
-- given, its request is counted. Times are returned in microseconds, see `Database.fetch`.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
held AS MATERIALIZED (
    -- By primary key; an execution that has ended is not in this partition.
    SELECT e.lease_token, e.lease_until > c.now AS holds, t.status AS tenant, i.status AS identity
    FROM tenantcron.execution_live AS e
    CROSS JOIN clock AS c
    JOIN tenantcron.tenant AS t ON e.tenant_id = t.id
    LEFT JOIN tenantcron.identity AS i ON e.tenant_id = i.tenant_id AND i.id = %(identity)s::text
    WHERE e.id = %(id)s::uuid AND e.state = 'RUNNING'
),
counted AS (
    INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
    SELECT %(caller)s::text, date_trunc('minute', statement_timestamp()), 1
    WHERE %(caller)s::text IS NOT NULL
    ON CONFLICT (caller) DO UPDATE SET
        window_start = greatest(usage.window_start, excluded.window_start),
        requests = CASE
            WHEN usage.window_start >= excluded.window_start THEN usage.requests + 1 ELSE 1
        END
    RETURNING window_start, requests
)
SELECT
    h.lease_token::text,
    h.holds,
    h.tenant,
    h.identity,
    (extract(epoch FROM c.now) * 1000000)::int8,
    u.requests,
    ceil(60 - extract(epoch FROM statement_timestamp() - u.window_start))::int4
FROM clock AS c
LEFT JOIN held AS h ON true
LEFT JOIN counted AS u ON true
