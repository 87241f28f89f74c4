-- Whether a bus is new or its replicas were last recorded a while ago, and whether it is due and has
-- an event after its position.
SELECT
    NOT EXISTS (
        SELECT
        FROM tenantcron.event_bus AS b
        WHERE
            b.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text
            AND b.seen_at OPERATOR(pg_catalog.>) (
                coalesce(%(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp())
                OPERATOR(pg_catalog.-) '10 minutes'::pg_catalog.interval
            )
    ),
    EXISTS (
        SELECT
        FROM tenantcron.event_bus AS b
        CROSS JOIN LATERAL (
            SELECT
            FROM tenantcron.bus_event AS e
            WHERE e.place OPERATOR(pg_catalog.>) b.last_published
            LIMIT 1
        ) AS pending
        WHERE
            b.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text
            AND b.due_at OPERATOR(pg_catalog.<=) coalesce(
                %(at)s::pg_catalog.timestamptz, pg_catalog.statement_timestamp()
            )
    )
