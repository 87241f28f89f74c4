-- Whether events have to be placed, whether there is a receiver, and whether one of these has a due
-- lane. Lanes are looked up by webhook: there may be thousands that are not due.
SELECT
    EXISTS (SELECT FROM tenantcron.outbox),
    EXISTS (SELECT FROM tenantcron.webhook WHERE disabled_at IS NULL)
    OR EXISTS (SELECT FROM tenantcron.event_bus),
    EXISTS (
        SELECT
        FROM tenantcron.webhook AS w
        CROSS JOIN LATERAL (
            SELECT
            FROM tenantcron.webhook_lane AS l
            WHERE
                l.webhook_name OPERATOR(pg_catalog.=) w.name::pg_catalog.text
                AND l.last_placed OPERATOR(pg_catalog.>) l.last_delivered
                AND l.due_at OPERATOR(pg_catalog.<=) coalesce(
                    %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
                )
            LIMIT 1
        ) AS lane
        WHERE w.disabled_at IS NULL
    )
