WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
-- Each webhook has its own slots, so that a slow webhook does not block others.
slots AS MATERIALIZED (
    SELECT *
    FROM unnest(%(webhooks)s::text[], %(slots)s::int[]) AS s (webhook_name, number)
),
-- The lanes that are due for longest. Lanes that are not due are not read.
due AS MATERIALIZED (
    SELECT lane.webhook_name, lane.tenant_id
    FROM slots
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT l.webhook_name, l.tenant_id
        FROM tenantcron.webhook_lane AS l
        WHERE
            l.webhook_name = slots.webhook_name
            AND l.last_placed > l.last_delivered AND l.due_at <= clock.now
        ORDER BY l.due_at
        LIMIT slots.number
        FOR UPDATE SKIP LOCKED
    ) AS lane
),
-- The lease: no other replica finds the lane due until then, and only the holder of the token may
-- release it.
taken AS (
    UPDATE tenantcron.webhook_lane AS l
    SET due_at = clock.now + %(lease)s::interval, lease_token = gen_random_uuid()
    FROM due, clock
    WHERE l.webhook_name = due.webhook_name AND l.tenant_id = due.tenant_id
    RETURNING
        l.webhook_name, l.tenant_id, l.lease_token, l.failures, l.last_delivered, clock.now
)
-- A lane whose events were just placed may have none here: its row is newer than the snapshot of the
-- statement. It is released and taken again.
SELECT
    t.webhook_name, t.tenant_id, t.lease_token, t.failures, t.now,
    e.place, e.event_id, e.type, e.subject, e.happened_at, e.data
FROM taken AS t
LEFT JOIN LATERAL (
    SELECT *
    FROM tenantcron.webhook_event AS e
    WHERE
        e.webhook_name = t.webhook_name AND e.tenant_id = t.tenant_id
        AND e.place > t.last_delivered
    ORDER BY e.place
    LIMIT %(events)s
) AS e ON true
ORDER BY t.webhook_name, t.tenant_id, e.place
