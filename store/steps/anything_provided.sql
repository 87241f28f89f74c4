-- Whether any cursor belongs to a provider.
SELECT EXISTS (
    SELECT
    FROM tenantcron.schedule_cursor
    WHERE provider OPERATOR(pg_catalog.=) %(provider)s::pg_catalog.text
)
