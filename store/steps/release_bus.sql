-- The fence: a replica that has lost the lease changes nothing. Events that every bus has published
-- are deleted in the same statement.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
released AS (
    UPDATE tenantcron.event_bus AS b
    SET
        last_published = greatest(b.last_published, %(published)s),
        due_at = clock.now + %(wait)s::interval,
        seen_at = greatest(b.seen_at, clock.now),
        lease_token = NULL,
        failures = %(failures)s,
        last_error = %(error)s,
        dropped = b.dropped + %(refused)s,
        dropped_at = CASE WHEN %(refused)s > 0 THEN clock.now ELSE b.dropped_at END
    FROM clock
    WHERE b.name = %(name)s AND b.lease_token = %(token)s::uuid
    RETURNING b.last_published
),
-- The statement sees the other buses as they were when it began: never too far.
kept AS (
    SELECT
        least(
            r.last_published,
            (SELECT min(b.last_published) FROM tenantcron.event_bus AS b WHERE b.name <> %(name)s)
        ) AS place
    FROM released AS r
),
gone AS (
    DELETE FROM tenantcron.bus_event AS e USING kept WHERE e.place <= kept.place
)
SELECT count(*) FROM released
