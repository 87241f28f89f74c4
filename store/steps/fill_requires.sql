-- Executions of the previous release get the requirement from their definition.
WITH undecided AS MATERIALIZED (
    SELECT e.id
    FROM tenantcron.execution_live AS e
    WHERE e.state <> 'RUNNING' AND e.requires IS NULL
    LIMIT %(most)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE tenantcron.execution_live AS e
SET
    requires = coalesce(
        (
            SELECT kind
            FROM tenantcron.schedule_definition AS d, jsonb_object_keys(
                CASE jsonb_typeof(d.definition -> 'target')
                    WHEN 'object' THEN d.definition -> 'target' ELSE '{}'
                END
            ) AS kind
            WHERE d.id = e.definition_id
            LIMIT 1
        ),
        'saga:' || e.saga_name
    )
FROM undecided
WHERE e.id = undecided.id
