-- May this execution have a token now, and which key signs? One row while the execution runs by this
-- very lease, none once it has ended or somebody else has it. The time comes along: the token's times
-- are those of the clock that decided.
SELECT
    e.lease_until > clock.now,
    t.status,
    -- Null: schedulers of that name were never declared here.
    i.status,
    clock.now,
    -- The key that has come into use last. There are only ever a few.
    (
        SELECT k.kid
        FROM tenantcron.signing_key AS k
        WHERE k.active_from <= clock.now AND k.retired_at IS NULL
        ORDER BY k.active_from DESC, k.kid COLLATE "C" DESC
        LIMIT 1
    )
FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now) AS clock
JOIN tenantcron.execution_live AS e
    ON e.id = %(id)s::uuid AND e.lease_token = %(lease_token)s::uuid AND e.state = 'RUNNING'
JOIN tenantcron.tenant AS t ON e.tenant_id = t.id
LEFT JOIN tenantcron.identity AS i ON e.tenant_id = i.tenant_id AND i.id = %(identity)s::text
