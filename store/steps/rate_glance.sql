-- For each kind of target at a host with a rate limit and pending executions: microseconds until the
-- first of them may start, and until when the calls of the host are spent.
SELECT
    l.requires,
    pending.microseconds,
    (
        pg_catalog.date_part(
            'epoch',
            (
                SELECT pg_catalog.max(r.spent_until)
                FROM tenantcron.rate_limit AS r
                WHERE r.host::pg_catalog.text OPERATOR(pg_catalog.=) l.host
            ) OPERATOR(pg_catalog.-) coalesce(
                %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
            )
        ) OPERATOR(pg_catalog.*) 1000000
    )::pg_catalog.int8
FROM ROWS FROM (
    pg_catalog.unnest(%(requires)s::pg_catalog.text []),
    pg_catalog.unnest(%(hosts)s::pg_catalog.text [])
) AS l (requires, host)
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN EXISTS (
            SELECT
            FROM tenantcron.execution_live AS e
            WHERE
                e.state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
                AND e.requires::pg_catalog.text OPERATOR(pg_catalog.=) l.requires
                AND e.not_before OPERATOR(pg_catalog.<=) coalesce(
                    %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
                )
        ) THEN 0
        ELSE (
            pg_catalog.date_part(
                'epoch',
                (
                    SELECT pg_catalog.min(e.not_before)
                    FROM tenantcron.execution_live AS e
                    WHERE
                        e.state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
                        AND e.requires::pg_catalog.text OPERATOR(pg_catalog.=) l.requires
                ) OPERATOR(pg_catalog.-) coalesce(
                    %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
                )
            ) OPERATOR(pg_catalog.*) 1000000
        )::pg_catalog.int8
    END AS microseconds
) AS pending
WHERE pending.microseconds IS NOT NULL
