-- Microseconds until a cursor is due. A glance: see `glances` for why all names are qualified.
SELECT (
    pg_catalog.date_part(
        'epoch',
        pg_catalog.min(next_run_at) OPERATOR(pg_catalog.-) coalesce(
            %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
        )
    ) OPERATOR(pg_catalog.*) 1000000
)::pg_catalog.int8
FROM tenantcron.schedule_cursor
WHERE enabled AND fault IS NULL AND next_run_at IS NOT NULL
