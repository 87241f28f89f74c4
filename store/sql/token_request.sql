-- Requests with an API token: find the token, and count them. It runs outside of a transaction,
-- under whatever search path the session has, so all operators are named in full.
WITH token AS (
    -- By its public id; whether the secret is right is judged again by the caller, in constant time.
    SELECT id, name, digest, role, tenant_id, expires_at, revoked_at
    FROM tenantcron.api_token
    WHERE id OPERATOR(pg_catalog.=) %(id)s::pg_catalog.varchar
),
counted AS (
    -- Only who has the secret uses up the allowance: knowing an id must not lock its owner out.
    INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
    SELECT
        pg_catalog.concat('token:', id),
        pg_catalog.date_trunc('minute', pg_catalog.statement_timestamp()),
        %(requests)s::pg_catalog.int4
    FROM token
    WHERE
        digest OPERATOR(pg_catalog.=) %(digest)s::pg_catalog.bytea
        AND revoked_at IS NULL
        AND expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp()
    ON CONFLICT (caller) DO UPDATE SET
        -- A new window begins with its first request.
        window_start = greatest(usage.window_start, excluded.window_start),
        -- What was counted before and not used is given back, to the window that it was taken from.
        requests = CASE
            WHEN usage.window_start OPERATOR(pg_catalog.<) excluded.window_start
                THEN excluded.requests
            WHEN usage.window_start OPERATOR(pg_catalog.=) %(window)s::pg_catalog.timestamptz
                THEN greatest(usage.requests OPERATOR(pg_catalog.-) %(unused)s::pg_catalog.int4, 0)
                    OPERATOR(pg_catalog.+) excluded.requests
            ELSE usage.requests OPERATOR(pg_catalog.+) excluded.requests
        END
    RETURNING window_start, requests
)
SELECT
    token.id, token.name, token.digest, token.role, token.tenant_id, token.expires_at,
    token.revoked_at, pg_catalog.statement_timestamp(), counted.requests,
    -- What is left of the window's minute, in seconds.
    pg_catalog.ceil(
        60 OPERATOR(pg_catalog.-) extract(
            epoch FROM pg_catalog.statement_timestamp() OPERATOR(pg_catalog.-) counted.window_start
        )
    )::pg_catalog.int4,
    counted.window_start
FROM token
LEFT JOIN counted ON true
