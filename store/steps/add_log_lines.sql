-- Store new log lines of running attempts, one row each. The fence: only the holder of the lease
-- writes. A stale attempt that still passes it writes rows of its own attempt, which nothing reads.
WITH given AS MATERIALIZED (
    SELECT *
    FROM unnest(
        %(ids)s::uuid[], %(tokens)s::uuid[], %(attempts)s::int[], %(end_positions)s::bigint[],
        %(replaces)s::boolean[], %(lines)s::text[]
    ) AS g (id, token, attempt, end_position, replaces, lines)
),
held AS MATERIALIZED (
    SELECT g.id, g.attempt, g.end_position, g.replaces, g.lines, e.tenant_id
    FROM given AS g
    JOIN tenantcron.execution_live AS e ON e.id = g.id AND e.lease_token = g.token
    WHERE e.state = 'RUNNING'
),
-- Lines that replace all earlier ones, also those of an earlier attempt.
replaced AS (
    DELETE FROM tenantcron.live_log AS l
    USING held
    WHERE
        held.replaces AND l.execution_id = held.id
        AND (l.attempt, l.end_position) <> (held.attempt, held.end_position)
)
INSERT INTO tenantcron.live_log AS l (execution_id, attempt, end_position, tenant_id, lines)
SELECT id, attempt, end_position, tenant_id, lines
FROM held
-- The response to the same lines was lost, and they are sent again.
ON CONFLICT (execution_id, attempt, end_position) DO UPDATE SET lines = excluded.lines
