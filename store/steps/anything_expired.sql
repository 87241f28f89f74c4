-- Whether any execution has a lease that was not renewed in time.
SELECT EXISTS (
    SELECT
    FROM tenantcron.execution_live
    WHERE
        state::pg_catalog.text OPERATOR(pg_catalog.=) 'RUNNING'::pg_catalog.text
        AND lease_until OPERATOR(pg_catalog.<) coalesce(
            %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
        )
)
