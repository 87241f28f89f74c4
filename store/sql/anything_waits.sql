-- Whether any execution waits, whether or not it may start now.
SELECT EXISTS (
    SELECT
    FROM tenantcron.execution_live
    WHERE
        state::pg_catalog.text
        OPERATOR(pg_catalog.=) ANY ('{PENDING,FAILED}'::pg_catalog.text [])
)
