-- Whether a tenant has pending executions of a lower priority than others that are pending or running.
-- Two index lookups for each tenant and requirement.
SELECT EXISTS (
    SELECT
    FROM unnest(%(tenant_ids)s::text[]) AS t (tenant_id)
    CROSS JOIN unnest(%(requires)s::text[]) AS r (requires)
    CROSS JOIN LATERAL (
        SELECT e.priority
        FROM tenantcron.execution_live AS e
        WHERE
            e.state <> 'RUNNING' AND e.requires = r.requires AND e.tenant_id = t.tenant_id
            AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
        ORDER BY e.priority, e.not_before
        LIMIT 1
    ) AS first
    LEFT JOIN (
        SELECT tenant_id, min(priority) AS priority
        FROM tenantcron.execution
        WHERE state = 'RUNNING'
        GROUP BY tenant_id
    ) AS running ON running.tenant_id = t.tenant_id
    WHERE
        first.priority > running.priority OR EXISTS (
            SELECT FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = r.requires AND e.tenant_id = t.tenant_id
                AND e.priority > first.priority
                AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
        )
)
