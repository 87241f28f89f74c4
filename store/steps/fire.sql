-- Move the cursors, but only from where they were found: compare-and-set.
WITH moved AS (
    UPDATE tenantcron.schedule_cursor AS c
    SET next_run_at = to_.next_run_at, last_run_at = to_.last_run_at, tz_version = %(tz_version)s
    FROM unnest(
        %(schedule_ids)s::uuid[], %(found_at)s::timestamptz[],
        %(next_run_at)s::timestamptz[], %(last_run_at)s::timestamptz[]
    ) AS to_ (schedule_id, found_at, next_run_at, last_run_at)
    WHERE c.schedule_id = to_.schedule_id AND c.next_run_at = to_.found_at
    RETURNING c.schedule_id, c.tenant_id, c.schedule_name, c.saga_name, c.definition_id
)
-- Insert the only row that each occurrence can have. If it exists already, live or in the history, the
-- occurrence was fired before; that is an outcome, not an error. No other transaction can insert it
-- concurrently: that needs the lock on the cursor.
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    reason_code, reason, overlap, priority, not_before, start_deadline, attempts_allowed,
    actor_id, actor_type, actor_source, covers_from, missed_count, created_at, finished_at, requires
)
SELECT
    o.id, m.tenant_id, m.schedule_id, m.schedule_name, m.saga_name, m.definition_id,
    o.scheduled_for, o.state, o.reason_code, o.reason, o.overlap, o.priority, o.not_before,
    o.start_deadline, o.attempts_allowed, %(actor_id)s, 'scheduler', o.source, o.covers_from,
    o.missed_count, %(now)s::timestamptz,
    CASE WHEN o.state <> 'PENDING' THEN %(now)s::timestamptz END, o.requires
FROM unnest(
    %(ids)s::uuid[], %(of)s::uuid[], %(scheduled_for)s::timestamptz[], %(state)s::text[],
    %(reason_code)s::text[], %(reason)s::text[], %(overlap)s::text[], %(priority)s::smallint[],
    %(not_before)s::timestamptz[], %(start_deadline)s::timestamptz[], %(attempts_allowed)s::int[],
    %(source)s::text[], %(covers_from)s::timestamptz[], %(missed_count)s::int[],
    %(requires)s::text[]
) AS o (
    id, schedule_id, scheduled_for, state, reason_code, reason, overlap, priority, not_before,
    start_deadline, attempts_allowed, source, covers_from, missed_count, requires
)
JOIN moved AS m ON m.schedule_id = o.schedule_id
WHERE NOT EXISTS (
    SELECT FROM tenantcron.execution AS e WHERE e.id = o.id AND e.scheduled_for = o.scheduled_for
)
ON CONFLICT DO NOTHING
