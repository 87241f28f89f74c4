-- How many calls of a host may start now, and the tenants whose turn it is. The caller holds the claim
-- lock, so no other replica reads or changes the rows of the host until this transaction ends.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
-- All kinds of targets share the calls of their host. A start moves the time at most the burst ahead.
-- A later time is from before the clock was set back or the rate was raised, and does not count.
spent AS MATERIALIZED (
    SELECT
        clock.now,
        greatest(
            max(r.spent_until) FILTER (
                WHERE
                    r.spent_until
                    <= clock.now + make_interval(secs => %(burst)s::float8 + 0.001)
            ),
            clock.now
        ) AS until,
        coalesce(max(r.spent_until) > clock.now - interval '1 minute', false) AS is_busy,
        coalesce(max(r.last_tenant) FILTER (WHERE r.kind = %(kind)s), '') AS last_tenant,
        coalesce(max(r.turn_calls) FILTER (WHERE r.kind = %(kind)s), 0) AS turn_calls
    FROM clock LEFT JOIN tenantcron.rate_limit AS r ON r.host = %(host)s
    GROUP BY clock.now
),
free AS MATERIALIZED (
    SELECT
        spent.*,
        -- After the last tenant comes the first one.
        CASE WHEN EXISTS (
            SELECT FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = %(requires)s
                AND e.tenant_id > spent.last_tenant AND e.not_before <= spent.now
        ) THEN spent.last_tenant ELSE '' END AS after,
        least(
            -- A thousandth of a call for rounding.
            floor((
                %(burst)s::float8 - extract(epoch FROM spent.until - spent.now)::float8
            ) / %(interval)s::float8 + 0.001),
            %(most)s
        )::int AS calls
    FROM spent
),
-- The tenants with pending executions for this host after the last one, one index lookup each.
step AS (
    SELECT
        1 AS number, (
            SELECT e.tenant_id
            FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = %(requires)s AND e.tenant_id > free.after
                AND e.not_before <= free.now
            ORDER BY e.tenant_id
            LIMIT 1
        ) AS tenant_id
    FROM free
    WHERE free.calls > 0
    UNION ALL
    SELECT
        step.number + 1, (
            SELECT e.tenant_id
            FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = %(requires)s AND e.tenant_id > step.tenant_id
                AND e.not_before <= free.now
            ORDER BY e.tenant_id
            LIMIT 1
        )
    FROM step, free
    WHERE step.tenant_id IS NOT NULL AND step.number <= free.calls
),
-- Each tenant has as many calls in its turn as its weight. Only whole turns, unless there are fewer
-- calls than the first tenant may make. It continues its turn then, alone: the claim would not know
-- that it has made calls before.
turn AS MATERIALIZED (
    SELECT
        step.number,
        sum(
            CASE
                WHEN step.number > 1 THEN coalesce(t.weight, 1)
                ELSE greatest(coalesce(t.weight, 1) - free.turn_calls, 1)
            END
        ) OVER (ORDER BY step.number) AS calls
    FROM step
    CROSS JOIN free
    LEFT JOIN tenantcron.tenant AS t ON t.id = step.tenant_id
    WHERE step.tenant_id IS NOT NULL
)
SELECT
    free.now AS at, free.calls, free.until AS spent_until, free.is_busy, free.after, free.turn_calls,
    count(turn.number)::int AS tenants,
    coalesce(max(turn.calls), 0)::int AS calls_of_tenants,
    -- Whether all tenants after the last one have their turn.
    EXISTS (SELECT FROM step WHERE step.tenant_id IS NULL)
    AND NOT EXISTS (SELECT FROM turn AS t WHERE t.calls > free.calls)
    AND free.turn_calls = 0 AS is_end
FROM free
LEFT JOIN turn ON turn.number = 1 OR turn.calls <= free.calls AND free.turn_calls = 0
GROUP BY free.now, free.calls, free.until, free.is_busy, free.after, free.turn_calls
