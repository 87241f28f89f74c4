-- One request with an API token: find the token, and count the request.
WITH token AS (
    -- By its public id; whether the secret is right is judged again by the caller, in constant time.
    SELECT id, name, digest, role, tenant_id, expires_at, revoked_at
    FROM tenantcron.api_token
    WHERE id = %(id)s
),
counted AS (
    -- Only who has the secret uses up the allowance: knowing an id must not lock its owner out.
    INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
    SELECT 'token:' || id, date_trunc('minute', statement_timestamp()), 1
    FROM token
    WHERE digest = %(digest)s AND revoked_at IS NULL AND expires_at > statement_timestamp()
    ON CONFLICT (caller) DO UPDATE SET
        -- A new window begins with its first request.
        window_start = greatest(usage.window_start, excluded.window_start),
        requests = CASE
            WHEN usage.window_start >= excluded.window_start THEN usage.requests + 1 ELSE 1
        END
    RETURNING window_start, requests
)
SELECT
    token.*,
    statement_timestamp() AS now,
    counted.requests,
    ceil(extract(epoch FROM counted.window_start + interval '1 minute' - statement_timestamp()))::integer
        AS seconds_left
FROM token
LEFT JOIN counted ON true
