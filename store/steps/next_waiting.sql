-- Microseconds until a pending execution that this replica can run may start, or may not wait any
-- longer.
SELECT (
    pg_catalog.date_part(
        'epoch',
        pg_catalog.min(moment) OPERATOR(pg_catalog.-) coalesce(
            %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
        )
    ) OPERATOR(pg_catalog.*) 1000000
)::pg_catalog.int8
FROM tenantcron.execution_live
CROSS JOIN LATERAL (VALUES (not_before), (start_deadline)) AS moments (moment)
WHERE
    state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
    AND requires::pg_catalog.text OPERATOR(pg_catalog.=) ANY (%(requires)s::pg_catalog.text [])
    AND moment OPERATOR(pg_catalog.>) %(since)s::pg_catalog.timestamptz
