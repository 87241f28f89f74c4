-- Whether any execution is pending that this replica can run, even if it may not start yet, or whose
-- requirement is not decided yet.
SELECT EXISTS (
    SELECT
    FROM tenantcron.execution_live
    WHERE
        state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING'
        AND requires::pg_catalog.text
        OPERATOR(pg_catalog.=) ANY (%(requires)s::pg_catalog.text [])
) OR EXISTS (
    SELECT
    FROM tenantcron.execution_live
    WHERE state::pg_catalog.text OPERATOR(pg_catalog.<>) 'RUNNING' AND requires IS NULL
)
