-- Committed events, in the order of their ids. The caller has held the lock of the outbox since before
-- the statement began, so no other transaction assigns positions concurrently.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
taken AS (
    DELETE FROM tenantcron.outbox
    WHERE id IN (SELECT o.id FROM tenantcron.outbox AS o ORDER BY o.id LIMIT %(batch)s)
    RETURNING *
),
-- Positions come from the same sequence as ids: each is higher than all previous ones.
placed AS MATERIALIZED (
    SELECT nextval('tenantcron.outbox_id_seq') AS place, sorted.*
    FROM (SELECT * FROM taken ORDER BY id) AS sorted
),
-- A webhook that was disabled in the meantime gets no more events; one that was created in the
-- meantime may get a few earlier ones.
wanted AS MATERIALIZED (
    SELECT w.name AS webhook_name, placed.*
    FROM placed
    JOIN tenantcron.webhook AS w
        ON w.disabled_at IS NULL AND placed.type = ANY (w.event_types)
        AND (w.tenant_ids IS NULL OR placed.tenant_id = ANY (w.tenant_ids))
),
-- Ordered, to prevent deadlocks.
lanes AS (
    INSERT INTO tenantcron.webhook_lane AS l (webhook_name, tenant_id, last_placed, due_at)
    SELECT webhook_name, tenant_id, max(place), clock.now
    FROM wanted, clock
    GROUP BY webhook_name, tenant_id, clock.now
    ORDER BY webhook_name, tenant_id
    ON CONFLICT (webhook_name, tenant_id) DO UPDATE SET
        last_placed = excluded.last_placed,
        -- A lane that was empty is due now; others keep their time, their lease or their backoff.
        due_at = CASE
            WHEN l.last_placed > l.last_delivered THEN l.due_at ELSE excluded.due_at
        END
),
events AS (
    INSERT INTO tenantcron.webhook_event (
        webhook_name, tenant_id, place, event_id, type, subject, happened_at, data, placed_at
    )
    SELECT webhook_name, tenant_id, place, event_id, type, subject, happened_at, data, clock.now
    FROM wanted, clock
)
SELECT count(*) FROM placed
