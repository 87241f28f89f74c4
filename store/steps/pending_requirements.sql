-- The requirements of pending executions, one index lookup for each, whatever their number.
WITH RECURSIVE step AS (
    (
        SELECT requires
        FROM tenantcron.execution_live
        WHERE
            state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
            AND requires IS NOT NULL
        ORDER BY requires
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT e.requires
        FROM tenantcron.execution_live AS e
        WHERE
            e.state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
            AND e.requires::pg_catalog.text
            OPERATOR(pg_catalog.>) step.requires::pg_catalog.text
        ORDER BY e.requires
        LIMIT 1
    )
    FROM step
    WHERE step.requires IS NOT NULL
)
SELECT step.requires
FROM step
WHERE
    step.requires IS NOT NULL
    -- Requirements that a replica has declared by name are left to it. It may be restarting.
    AND NOT (
        %(unnamed)s AND EXISTS (
            SELECT
            FROM tenantcron.capability AS c
            WHERE
                c.name::pg_catalog.text OPERATOR(pg_catalog.=) step.requires::pg_catalog.text
                AND c.named_at OPERATOR(pg_catalog.>) (
                    coalesce(%(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp())
                    OPERATOR(pg_catalog.-) %(kept)s::pg_catalog.interval
                )
        )
    )
