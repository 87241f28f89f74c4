WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
-- One replica publishes to a bus at a time.
due AS MATERIALIZED (
    SELECT b.name
    FROM tenantcron.event_bus AS b, clock
    WHERE b.name = %(name)s AND b.due_at <= clock.now
    FOR UPDATE OF b SKIP LOCKED
),
-- The lease: no other replica finds the bus due until then, and only the holder of the token may
-- release it.
taken AS (
    UPDATE tenantcron.event_bus AS b
    SET due_at = clock.now + %(lease)s::interval, lease_token = gen_random_uuid()
    FROM due, clock
    WHERE b.name = due.name
    RETURNING b.lease_token, b.failures, b.last_published
)
SELECT
    t.lease_token, t.failures, e.tenant_id,
    e.place, e.event_id, e.type, e.subject, e.happened_at, e.data
FROM taken AS t
LEFT JOIN LATERAL (
    SELECT *
    FROM tenantcron.bus_event AS e
    WHERE e.place > t.last_published
    ORDER BY e.place
    LIMIT %(events)s
) AS e ON true
ORDER BY e.place
