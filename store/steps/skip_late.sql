-- Ends executions that may not wait and cannot start, with the reason, and all executions of a closed
-- tenant. Only those that this replica can run: other replicas end theirs.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
full_up AS MATERIALIZED (
    SELECT *
    FROM unnest(
        %(tenant_ids)s::text[], %(reason_codes)s::text[], %(reasons)s::text[],
        %(are_closed)s::bool[]
    ) AS f (tenant_id, reason_code, reason, is_closed)
),
late AS MATERIALIZED (
    SELECT
        e.id, e.scheduled_for, f.reason,
        coalesce(
            f.reason_code,
            CASE WHEN EXISTS (
                SELECT FROM tenantcron.tenant_source AS s
                WHERE s.only_row AND s.refreshed_at + s.max_age < clock.now
            ) THEN %(source_stale)s::text ELSE %(limit)s END
        ) AS reason_code
    FROM tenantcron.execution_live AS e
    CROSS JOIN clock
    LEFT JOIN full_up AS f ON f.tenant_id = e.tenant_id
    WHERE
        e.state <> 'RUNNING' AND e.requires = ANY(%(requires)s::text[])
        AND (%(all)s OR e.tenant_id = ANY(%(tenant_ids)s::text[])) AND e.not_before <= clock.now
        AND (f.is_closed OR e.start_deadline <= clock.now AND (%(all)s OR f.reason_code IS NOT NULL))
    LIMIT %(most)s
)
UPDATE tenantcron.execution AS e
SET
    state = CASE WHEN e.attempt > 0 THEN 'CANCELLED' ELSE 'SKIPPED' END,
    reason_code = late.reason_code,
    reason = late.reason,
    finished_at = clock.now
FROM late, clock
WHERE
    e.id = late.id AND e.scheduled_for = late.scheduled_for
    AND e.state IN ('PENDING', 'RETRYING', 'FAILED')
RETURNING e.id, e.tenant_id, e.schedule_name, e.state, e.reason_code, e.reason
