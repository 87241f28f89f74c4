-- Find the API token of some requests, and count them. Times are returned in microseconds, see
-- `Database.fetch`.
WITH token AS (
    -- By its public id; the caller checks the secret again, in constant time.
    SELECT id, name, digest, role, tenant_id, expires_at, revoked_at
    FROM tenantcron.api_token
    WHERE id = %(id)s::varchar
),
counted AS (
    -- Only requests with the right secret count: knowing an id must not lock out its owner.
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
        -- Requests that were counted but not made are subtracted from their window.
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
    -- The remaining seconds of the window.
    ceil(60 - extract(epoch FROM statement_timestamp() - counted.window_start))::int4,
    (extract(epoch FROM counted.window_start) * 1000000)::int8
FROM token
LEFT JOIN counted ON true
