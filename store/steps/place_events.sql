-- What is committed, in the order in which it was written. Whoever runs this holds the lock of the
-- outbox since before the statement began, so nobody else draws places meanwhile.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
taken AS (
    DELETE FROM tenantcron.outbox
    WHERE id IN (SELECT o.id FROM tenantcron.outbox AS o ORDER BY o.id LIMIT %(batch)s)
    RETURNING *
),
-- Places come from the same sequence as ids: each is higher than all that were drawn before.
placed AS MATERIALIZED (
    SELECT nextval('tenantcron.outbox_id_seq') AS place, sorted.*
    FROM (SELECT * FROM taken ORDER BY id) AS sorted
),
-- A webhook that was switched off since gets nothing more; one that was made since may get a
-- little from before.
wanted AS MATERIALIZED (
    SELECT w.name AS webhook_name, placed.*
    FROM placed
    JOIN tenantcron.webhook AS w
        ON w.disabled_at IS NULL AND placed.type = ANY (w.event_types)
        AND (w.tenant_ids IS NULL OR placed.tenant_id = ANY (w.tenant_ids))
),
-- In one order, so that nobody who holds one lane waits for another.
lanes AS (
    INSERT INTO tenantcron.webhook_lane AS l (webhook_name, tenant_id, last_placed, due_at)
    SELECT webhook_name, tenant_id, max(place), clock.now
    FROM wanted, clock
    GROUP BY webhook_name, tenant_id, clock.now
    ORDER BY webhook_name, tenant_id
    ON CONFLICT (webhook_name, tenant_id) DO UPDATE SET
        last_placed = excluded.last_placed,
        -- A lane that was empty is due from now on; another keeps its turn, its lease or its wait.
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
