-- The fence: a replica that has lost the lease changes nothing. Delivered events are deleted in the
-- same statement, and a lane with more events goes to the end of the queue.
WITH released AS (
    UPDATE tenantcron.webhook_lane
    SET
        last_delivered = greatest(last_delivered, %(delivered)s),
        due_at = coalesce(%(at)s::timestamptz, statement_timestamp()) + %(wait)s::interval,
        lease_token = NULL,
        failures = %(failures)s,
        last_error = %(error)s
    WHERE
        webhook_name = %(webhook)s AND tenant_id = %(tenant)s AND lease_token = %(token)s::uuid
    RETURNING webhook_name, tenant_id, last_delivered
),
gone AS (
    DELETE FROM tenantcron.webhook_event AS e
    USING released AS s
    WHERE
        e.webhook_name = s.webhook_name AND e.tenant_id = s.tenant_id
        AND e.place <= s.last_delivered
)
SELECT count(*) FROM released
