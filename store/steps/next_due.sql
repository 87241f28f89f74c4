-- Microseconds until a cursor is due, or a task is to be fired, ahead of its time. A glance: see `glances` for why all names are qualified.
SELECT (
    pg_catalog.date_part(
        'epoch',
        least(
            (
                SELECT pg_catalog.min(next_run_at)
                FROM tenantcron.schedule_cursor
                WHERE enabled AND fault IS NULL AND next_run_at IS NOT NULL
            ),
            (
                SELECT
                    pg_catalog.min(execute_at)
                    OPERATOR(pg_catalog.-) %(ahead)s::pg_catalog.interval
                FROM tenantcron.task
                WHERE fired_at IS NULL AND NOT (SELECT tenantcron.has_former_replica())
            )
        ) OPERATOR(pg_catalog.-) coalesce(
            %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
        )
    ) OPERATOR(pg_catalog.*) 1000000
)::pg_catalog.int8
