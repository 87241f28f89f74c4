-- Compares the tenant source with the registered tenants and returns the differences. The CTE before
-- it has the rows of the source: given (document).
twice AS MATERIALIZED (
    SELECT document ->> 'id' AS id FROM given GROUP BY 1 HAVING count(*) > 1
),
shared AS MATERIALIZED (
    SELECT document ->> 'schema_name' AS schema_name
    FROM given
    WHERE document ->> 'schema_name' IS NOT NULL
    GROUP BY 1
    HAVING count(*) > 1
),
-- A row that equals its tenant needs no validation: the tenant was validated when it was registered.
differing AS MATERIALIZED (
    SELECT
        g.document,
        CASE WHEN t.id IS NOT NULL THEN jsonb_build_object(
            'id', t.id, 'schema_name', t.schema_name, 'status', t.status,
            'status_reason', t.status_reason, 'weight', t.weight, 'labels', t.labels,
            'sourced', t.sourced, 'is_missing', t.missing_since IS NOT NULL
        ) END AS live,
        coalesce(g.document ->> 'id' IN (SELECT id FROM twice), false) AS is_twice,
        coalesce(g.document ->> 'schema_name' IN (SELECT schema_name FROM shared), false)
            AS is_shared
    FROM given AS g
    FULL JOIN tenantcron.tenant AS t ON t.id = g.document ->> 'id'
    WHERE
        CASE
            WHEN t.id IS NULL THEN true
            WHEN g.document IS NULL THEN t.sourced AND t.missing_since IS NULL
            ELSE
                NOT t.sourced
                OR t.missing_since IS NOT NULL
                OR CASE WHEN g.document ? 'status' THEN g.document ->> 'status' ELSE 'active' END
                IS DISTINCT FROM t.status
                OR g.document ->> 'status_reason' IS DISTINCT FROM t.status_reason
                OR g.document ->> 'schema_name' <> t.schema_name
                OR g.document ? 'weight'
                AND coalesce(g.document ->> 'weight', '1') <> t.weight::text
                OR g.document ? 'labels'
                AND coalesce(nullif(g.document -> 'labels', 'null'), '{}') <> t.labels
                OR t.id IN (SELECT id FROM twice)
                OR t.schema_name IN (SELECT schema_name FROM shared)
        END
)
SELECT
    statement_timestamp(),
    (SELECT count(*) FROM given)::int,
    (SELECT count(*) FROM tenantcron.tenant WHERE sourced AND missing_since IS NULL)::int,
    array(
        SELECT jsonb_object_keys(document) FROM (SELECT document FROM given LIMIT 1) AS first_row
    ),
    (
        SELECT coalesce(jsonb_agg(jsonb_build_array(document, live, is_twice, is_shared)), '[]')
        FROM differing
    )
