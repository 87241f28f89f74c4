-- Requests with an API token: find the token, and count them. Times are returned in microseconds,
-- see `Database.ask`.
WITH token AS (
    -- By its public id; whether the secret is right is judged again by the caller, in constant time.
    SELECT id, name, digest, role, tenant_id, expires_at, revoked_at
    FROM tenantcron.api_token
    WHERE id = %(id)s::varchar
),
counted AS (
    -- Only who has the secret uses up the allowance: knowing an id must not lock its owner out.
    INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
    SELECT
        concat('token:', id), date_trunc('minute', statement_timestamp()), %(requests)s::int4
    FROM token
    WHERE
        digest = %(digest)s::bytea AND revoked_at IS NULL
        AND expires_at > statement_timestamp()
    ON CONFLICT (caller) DO UPDATE SET
        -- A new window begins with its first request.
        window_start = greatest(usage.window_start, excluded.window_start),
        -- What was counted before and not used is given back, to the window that it was taken from.
        requests = CASE
            WHEN usage.window_start < excluded.window_start THEN excluded.requests
            WHEN usage.window_start = %(window)s::timestamptz
                THEN greatest(usage.requests - %(unused)s::int4, 0) + excluded.requests
            ELSE usage.requests + excluded.requests
        END
    RETURNING window_start, requests
)
SELECT
    token.id, token.name, token.digest, token.role, token.tenant_id,
    (extract(epoch FROM token.expires_at) * 1000000)::int8,
    (extract(epoch FROM token.revoked_at) * 1000000)::int8,
    (extract(epoch FROM statement_timestamp()) * 1000000)::int8,
    counted.requests,
    -- What is left of the window's minute, in seconds.
    ceil(60 - extract(epoch FROM statement_timestamp() - counted.window_start))::int4,
    (extract(epoch FROM counted.window_start) * 1000000)::int8
FROM token
LEFT JOIN counted ON true
