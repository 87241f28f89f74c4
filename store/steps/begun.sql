WITH given AS (
    SELECT *
    FROM unnest(
        %(ids)s::uuid[], %(scheduled_for)s::timestamptz[], %(firsts)s::int[],
        %(latest)s::timestamptz[]
    ) AS g (id, scheduled_for, first, latest)
)
-- By primary key, for the few executions that are retried. The running attempt has no row.
SELECT
    g.id,
    coalesce(%(at)s::timestamptz, statement_timestamp())
    - least(
        g.latest,
        (
            SELECT min(a.started_at)
            FROM tenantcron.execution_attempt AS a
            WHERE
                a.execution_id = g.id AND a.scheduled_for = g.scheduled_for
                AND a.attempt >= g.first
        )
    )
FROM given AS g
