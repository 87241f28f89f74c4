-- There are three forms of this statement (see `statements`), because most of the cost of a small
-- claim is planning. The plain form is for times in which the order of starts hardly matters. If it
-- finds a period of scarcity (see `sharing`), it decides nothing, and the form with shares follows.
-- The form without quotas counts the starts of each tenant in a minute. If one has exceeded its quota,
-- the caller undoes the claim and repeats it with quotas. The form with shares has them always.
--
-- The caller holds the claim lock, so no other replica starts executions until this commits. The cost
-- grows with what this replica can run (its requirements, and the tenants with such executions
-- pending) and with the number of starts. Pending executions of other replicas are never read.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT
        coalesce(%(at)s::timestamptz, statement_timestamp()) AS now,
        gen_random_uuid() AS token
),
-- An operator's limits take precedence over those of the settings. Nothing starts while the statuses
-- of the platform's tenants are too old.
allowed AS MATERIALIZED (
    SELECT
        CASE WHEN EXISTS (
            SELECT FROM tenantcron.tenant_source AS s
            WHERE
                s.only_row AND s.refreshed_at + s.max_age
                < coalesce(%(at)s::timestamptz, statement_timestamp())
        ) THEN 0 ELSE coalesce(operator, declared) END AS overall,
        coalesce(operator_per_tenant, declared_per_tenant) AS per_tenant,
        coalesce((quotas ->> 'starts_per_minute')::int, %(starts_per_minute)s) AS starts,
        nullif(tenant_quotas, '{}') AS tenant_quotas,
        date_trunc('minute', coalesce(%(at)s::timestamptz, statement_timestamp())) AS minute
    FROM tenantcron.limits
    LIMIT 1
),
-- The running rows are the only count of used slots.
running AS MATERIALIZED (
    SELECT
        tenant_id, count(*)::int AS number,
        -- [shares]
        -- The processing time that would be charged if they all ended now.
        coalesce(sum(greatest(extract(
            epoch FROM clock.now - greatest(started_at, period.since) - %(least_charge)s * interval '1 s'
        ), 0)) FILTER (WHERE period.since IS NOT NULL), 0)::float8 AS seconds,
        -- [end]
        sum(CASE WHEN suspicion >= %(alone)s THEN %(together)s ELSE suspicion END)
            FILTER (WHERE worker_id = %(worker_id)s) AS suspected
    FROM tenantcron.execution
    -- [shares]
    CROSS JOIN clock LEFT JOIN period ON true
    -- [end]
    WHERE state = 'RUNNING'
    GROUP BY tenant_id
),
-- The free slots of the cluster, and the room for suspects on this replica. A suspect that must run
-- alone takes the room of all suspects, so that only one can be blamed if this worker is lost.
free AS MATERIALIZED (
    SELECT
        greatest(allowed.overall - coalesce(sum(running.number), 0)::int, 0) AS slots,
        -- The slots that may be reserved for tenants without running executions, and the number of
        -- tenants with running executions.
        allowed.overall / %(kept)s AS most_kept, count(running.tenant_id) AS busy,
        %(together)s - coalesce(sum(running.suspected), 0)::int AS suspects
    FROM allowed LEFT JOIN running ON true
    GROUP BY allowed.overall
),
-- Schedules with an execution that has begun and not ended: it is running, or waits for its next
-- attempt. If all of them were asked to stop, their replacement has to wait.
active AS MATERIALIZED (
    SELECT
        schedule_id, count(*) AS number,
        bool_and(cancel_requested_at IS NOT NULL) AS is_leaving,
        bool_or(overlap = 'cancel_running') AS is_replaceable
    FROM tenantcron.execution
    WHERE state IN ('RUNNING', 'RETRYING', 'FAILED')
    GROUP BY schedule_id
),
-- Requirements that other replicas recently could not start for lack of slots. Their executions keep
-- their places in the order, so slots are left for them. Usually this is empty.
rival AS MATERIALIZED (
    SELECT DISTINCT want AS requires
    FROM tenantcron.worker AS w, unnest(w.wants) AS want
    WHERE
        w.id <> %(worker_id)s
        AND w.wants_at > coalesce(%(at)s::timestamptz, statement_timestamp()) - %(hungry)s::interval
        AND want <> ALL(%(requires)s::text[])
),
-- The requirements of this replica and the tenants with pending executions for them, one index lookup
-- each. Breadth first: if one requirement has fewer tenants, the others get further. `<> 'RUNNING'` is
-- the predicate of the index; the index of the previous release has another predicate, so the planner
-- cannot use it by mistake.
step AS (
    SELECT
        own.requires, own.is_own, (
            SELECT e.tenant_id
            FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = own.requires AND e.tenant_id > %(after)s
                AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
            ORDER BY e.tenant_id
            LIMIT 1
        ) AS tenant_id
    FROM (
        SELECT requires, true AS is_own FROM unnest(%(requires)s::text[]) AS o (requires)
        UNION ALL
        SELECT requires, false FROM rival
    ) AS own
    UNION ALL
    SELECT
        step.requires, step.is_own, (
            SELECT e.tenant_id
            FROM tenantcron.execution_live AS e
            WHERE
                e.state <> 'RUNNING' AND e.requires = step.requires
                AND e.tenant_id > step.tenant_id
                AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
            ORDER BY e.tenant_id
            LIMIT 1
        )
    FROM step
    WHERE step.tenant_id IS NOT NULL
),
seen AS MATERIALIZED (
    SELECT requires, is_own, tenant_id FROM step LIMIT %(pairs)s + 2 * (SELECT count(*) FROM rival)
),
-- A requirement whose end was not reached may have more tenants. This claim stops at the first of
-- these points; the next claim continues there.
horizon AS MATERIALIZED (
    SELECT min(unfinished.tenant_id) AS tenant_id
    FROM (
        SELECT max(tenant_id) AS tenant_id
        FROM seen
        GROUP BY requires
        HAVING bool_and(tenant_id IS NOT NULL)
    ) AS unfinished
),
pair AS MATERIALIZED (
    SELECT seen.requires, seen.is_own, seen.tenant_id
    FROM seen, horizon
    WHERE seen.tenant_id <= coalesce(horizon.tenant_id, seen.tenant_id)
),
-- [shares]
-- The period of scarcity, if there is one. Tenants that had nothing pending so far begin at its
-- virtual time.
period AS MATERIALIZED (
    SELECT since, waited_at, virtual_time
    FROM tenantcron.share_period
    WHERE
        waited_at
        > coalesce(%(at)s::timestamptz, statement_timestamp()) - %(scarce_for)s::interval
),
-- [end]
tenant AS MATERIALIZED (
    SELECT
        s.tenant_id, t.schema_name, t.status, t.status_reason, t.weight,
        coalesce(t.max_concurrent, allowed.per_tenant) AS slots,
        -- [quotas]
        -- The quota of starts leaves so many more in this minute of the clock.
        least(
            coalesce(t.max_concurrent, allowed.per_tenant),
            coalesce(running.number, 0) + greatest(coalesce(
                (t.quotas ->> 'starts_per_minute')::int,
                (allowed.tenant_quotas -> s.tenant_id ->> 'starts_per_minute')::int,
                allowed.starts
            ) - CASE WHEN begun.minute = allowed.minute THEN begun.number ELSE 0 END, 0)
        ) AS most,
        begun.minute, begun.number AS begun,
        -- [no quotas]
        coalesce(t.max_concurrent, allowed.per_tenant) AS most,
        -- [end]
        t.quotas,
        -- [shares]
        coalesce(own.passes, '{0,0,0,0}') AS passes,
        -- The processing time in this period by weight, in seconds, with that of running executions,
        -- and how much of it is included.
        greatest(
            CASE WHEN own.since = period.since THEN own.virtual_time ELSE 0 END + (
                coalesce(used.seconds, 0)
                - CASE WHEN own.since = period.since THEN own.counted ELSE 0 END
                + coalesce(running.seconds, 0)
            ) / t.weight,
            period.virtual_time, 0
        ) AS virtual_time,
        coalesce(used.seconds, 0) AS counted,
        coalesce(running.seconds, 0) / t.weight AS in_flight,
        -- [end]
        coalesce(running.number, 0) AS running
    FROM (SELECT DISTINCT tenant_id FROM pair) AS s
    CROSS JOIN allowed
    LEFT JOIN tenantcron.tenant AS t ON t.id = s.tenant_id
    LEFT JOIN running ON running.tenant_id = s.tenant_id
    -- [quotas]
    LEFT JOIN tenantcron.tenant_start AS begun ON begun.tenant_id = s.tenant_id
    -- [end]
    -- [shares]
    LEFT JOIN tenantcron.tenant_share AS own ON own.tenant_id = s.tenant_id
    LEFT JOIN period ON true
    LEFT JOIN tenantcron.tenant_usage AS used
        ON used.tenant_id = s.tenant_id AND used.since = period.since
    -- [end]
),
-- How many executions of each tenant are considered: together they fill a batch. And how many slots
-- are reserved for tenants without running or pending executions, one for each: these tenants are
-- counted only if it makes a difference, and only as far as it does. So tenants whose executions hang
-- cannot hold all slots, unless there are more such tenants than these slots.
share AS MATERIALIZED (
    SELECT
        ceil(least(free.slots, %(batch)s)::float8 / greatest(count(*), 1))::int AS number,
        CASE
            WHEN
                free.slots <= free.most_kept + %(batch)s
                AND count(*) FILTER (WHERE tenant.running = 0) < free.slots
                THEN greatest(least(free.most_kept, (
                    SELECT count(*)
                    FROM (
                        SELECT FROM tenantcron.tenant LIMIT free.most_kept + free.busy + free.slots
                    ) AS present
                ) - free.busy - count(*) FILTER (WHERE tenant.running = 0)), 0)
            ELSE 0
        END AS kept
    FROM free LEFT JOIN tenant ON tenant.status = 'active' AND tenant.running < tenant.most
    GROUP BY free.slots, free.most_kept, free.busy
),
-- Each tenant's first executions for each requirement, by priority, then by age; with shares, for each
-- priority. An execution that has
-- to wait for the previous one is skipped, so that it does not delay others; one that ends because of
-- it (it may not wait, or not any longer) or will replace it is not skipped. Retries and manual
-- triggers wait for the previous execution, whatever the overlap. Executions that are being cancelled
-- are ignored. A row that is locked here does not move until this statement changes it, so its ctid
-- stays valid.
picked AS MATERIALIZED (
    SELECT
        p.*, pair.is_own, t.schema_name, t.running, t.most, t.weight, share.kept,
        -- [shares]
        t.virtual_time, t.passes[p.priority + 1] AS pass,
        -- [end]
        CASE
            -- [quotas]
            WHEN p.is_too_late AND t.begun >= coalesce(
                (t.quotas ->> 'starts_per_minute')::int,
                (allowed.tenant_quotas -> t.tenant_id ->> 'starts_per_minute')::int, allowed.starts
            ) AND t.minute >= allowed.minute - interval '1 minute' THEN %(start_quota)s::text
            -- [end]
            WHEN p.is_too_late THEN %(no_scheduler)s::text
            WHEN c.schedule_id IS NULL AND p.schedule_id <> p.id THEN %(removed)s
            WHEN p.actor_source = 'manual' THEN NULL
            WHEN NOT c.enabled THEN %(disabled)s
        END AS stopped_for,
        row_number() OVER (
            PARTITION BY p.schedule_id
            ORDER BY
                CASE WHEN p.overlap = 'cancel_running' THEN p.scheduled_for END DESC NULLS LAST,
                p.scheduled_for, p.id
        ) AS turn
    FROM tenant AS t
    JOIN pair ON pair.tenant_id = t.tenant_id
    CROSS JOIN share
    -- [quotas]
    CROSS JOIN allowed
    -- [end]
    -- [shares]
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS class (priority)
    -- [end]
    CROSS JOIN LATERAL (
        SELECT
            e.ctid, e.id, e.scheduled_for, e.tenant_id, e.schedule_id, e.overlap, e.priority,
            e.not_before, e.attempt, e.actor_source,
            CASE WHEN e.suspicion >= %(alone)s THEN %(together)s ELSE e.suspicion END AS suspects,
            -- It may not wait, but has waited, because no replica claimed it. It can be fired up to a
            -- minute late, which must not end it.
            e.attempt = 0
            AND e.start_deadline + interval '1 minute'
            < coalesce(%(at)s::timestamptz, statement_timestamp())
            AND e.created_at + interval '1 minute'
            < coalesce(%(at)s::timestamptz, statement_timestamp()) AS is_too_late,
            e.overlap <> 'allow' AND e.schedule_id IN (
                SELECT active.schedule_id FROM active
            ) AND e.state = 'PENDING' AS is_second,
            e.overlap = 'skip' AND e.attempt = 0 AND e.actor_source <> 'manual'
            OR e.overlap = 'queue'
            AND e.start_deadline <= coalesce(%(at)s::timestamptz, statement_timestamp())
            AS may_not_wait
        FROM tenantcron.execution_live AS e
        WHERE
            e.requires = pair.requires AND e.tenant_id = pair.tenant_id AND e.state <> 'RUNNING'
            -- [shares]
            AND e.priority = class.priority
            -- [end]
            AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
            -- A suspect for which there is no room is left to other replicas, or to a later claim.
            AND CASE WHEN e.suspicion >= %(alone)s THEN %(together)s ELSE e.suspicion END
            <= (SELECT free.suspects FROM free)
            AND (
                e.overlap = 'allow'
                OR e.overlap = 'cancel_running' AND (
                    e.state IN ('RETRYING', 'FAILED')
                    OR e.attempt = 0 AND e.actor_source <> 'manual'
                    AND e.schedule_id NOT IN (SELECT a.schedule_id FROM active AS a WHERE is_leaving)
                )
                OR e.overlap = 'skip' AND e.attempt = 0 AND e.actor_source <> 'manual'
                OR e.overlap = 'queue'
                AND e.start_deadline <= coalesce(%(at)s::timestamptz, statement_timestamp())
                OR e.state = 'PENDING'
                AND e.schedule_id NOT IN (SELECT active.schedule_id FROM active)
                OR e.state IN ('RETRYING', 'FAILED')
                AND e.schedule_id NOT IN (SELECT a.schedule_id FROM active AS a WHERE a.number > 1)
            )
        ORDER BY e.priority, e.not_before
        LIMIT least(t.most - t.running, share.number * t.weight)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS p
    -- Disabling or removing a schedule ends its pending executions; but an execution that was running
    -- then, or was just being retried manually, may have become pending since. A task has no cursor.
    LEFT JOIN tenantcron.schedule_cursor AS c ON c.schedule_id = p.schedule_id
    WHERE t.status = 'active' AND t.running < t.most AND share.number > 0
),
-- The order of the cluster: round-robin over the tenants, counting their running executions, so that
-- a long queue does not delay the short queue of another tenant. A tenant with a higher weight has
-- more places per round. Executions after the first round leave the reserved slots free. With shares,
-- the tenant with the least virtual time comes first in a round; and within a tenant, each start moves
-- its priority forward by its stride of 3, 4, 6 or 12, and the one that gets least far is next.
in_line AS MATERIALIZED (
    SELECT
        ctid, id, tenant_id, schedule_id, schema_name, suspects, is_own,
        -- [shares]
        priority, virtual_time,
        -- [end]
        CASE round WHEN 0 THEN 0 ELSE kept END AS leaves,
        row_number() OVER (ORDER BY round, tag, priority, not_before, id) AS place,
        sum(suspects) FILTER (WHERE is_own) OVER (
            ORDER BY round, tag, priority, not_before, id
        ) AS suspects_so_far
    FROM (
        SELECT
            nth_of_tenant.*, (running - 1 + nth) / weight AS round,
            -- [shares]
            virtual_time + (nth - 1) * %(least_charge)s::float8 / weight AS tag
            -- [plain]
            0 AS tag
            -- [end]
        FROM (
            SELECT
                picked.*,
                row_number() OVER (
                    PARTITION BY tenant_id
                    -- [shares]
                    ORDER BY pass + kth * (12 / (4 - priority)), priority, kth
                    -- [plain]
                    ORDER BY priority, not_before, scheduled_for, id
                    -- [end]
                ) AS nth
            -- [shares]
            FROM (
                SELECT
                    picked.*,
                    row_number() OVER (
                        PARTITION BY tenant_id, priority ORDER BY not_before, scheduled_for, id
                    ) AS kth
                FROM picked
                WHERE stopped_for IS NULL AND NOT is_second AND (overlap = 'allow' OR turn = 1)
            ) AS picked
            -- [plain]
            FROM picked
            WHERE stopped_for IS NULL AND NOT is_second AND (overlap = 'allow' OR turn = 1)
            -- [end]
        ) AS nth_of_tenant
        -- Each requirement was considered separately; the tenant limit applies to all of them.
        WHERE running + nth <= most
    ) AS startable
),
-- [plain]
demand AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM tenantcron.share_period
        WHERE
            waited_at
            > coalesce(%(at)s::timestamptz, statement_timestamp()) - %(scarce_for)s::interval
    ) AS is_scarce
),
-- [end]
judged AS MATERIALIZED (
    SELECT
        in_line.*,
        in_line.place <= least(free.slots - in_line.leaves, %(batch)s) AS has_slot,
        in_line.is_own AND in_line.place <= least(free.slots - in_line.leaves, %(batch)s)
        AND (in_line.suspects = 0 OR in_line.suspects_so_far <= free.suspects)
        -- [plain]
        AND NOT (SELECT is_scarce FROM demand)
        -- [end]
        AS starts
    FROM in_line, free
),
-- The second execution of a schedule ends only if the first one starts or runs.
unstarted AS MATERIALIZED (
    SELECT id, schema_name, 'SKIPPED' AS state, %(still_running)s::text AS reason_code
    FROM picked
    WHERE
        stopped_for IS NULL AND may_not_wait
        AND (is_second OR turn > 1 AND schedule_id IN (SELECT j.schedule_id FROM judged AS j WHERE j.starts))
    UNION ALL
    SELECT
        id, schema_name, CASE WHEN attempt > 0 THEN 'CANCELLED' ELSE 'SKIPPED' END,
        %(replaced)s
    FROM picked
    WHERE stopped_for IS NULL AND overlap = 'cancel_running' AND turn > 1
    UNION ALL
    SELECT
        id, schema_name, CASE WHEN attempt > 0 THEN 'CANCELLED' ELSE 'SKIPPED' END, stopped_for
    FROM picked
    WHERE stopped_for IS NOT NULL
    LIMIT %(most)s
),
taken AS (
    UPDATE tenantcron.execution_live AS e
    SET
        state = 'RUNNING',
        reason = NULL,
        reason_code = NULL,
        attempt = e.attempt + 1,
        lease_token = clock.token,
        lease_until = clock.now + %(lease)s::interval,
        worker_id = %(worker_id)s,
        started_at = clock.now,
        finished_at = NULL
    FROM judged AS j, clock
    WHERE j.starts AND e.ctid = j.ctid
    RETURNING
        e.state, e.reason_code, e.id, e.scheduled_for, e.tenant_id, j.schema_name, e.schedule_id,
        e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed, e.losses,
        e.suspicion, e.actor_id, e.actor_type, e.actor_source, e.not_before
),
ended AS (
    UPDATE tenantcron.execution AS e
    SET
        state = u.state, reason_code = u.reason_code, reason = NULL, finished_at = clock.now
    FROM unstarted AS u, clock
    WHERE
        e.id = u.id AND e.state IN ('PENDING', 'RETRYING', 'FAILED')
        -- [plain]
        AND NOT (SELECT is_scarce FROM demand)
        -- [end]
    RETURNING
        e.state, e.reason_code, e.id, e.scheduled_for, e.tenant_id, u.schema_name, e.schedule_id,
        e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed, e.losses,
        e.suspicion, e.actor_id, e.actor_type, e.actor_source, e.not_before
),
started AS (
    SELECT
        tenant_id, count(*) FILTER (WHERE starts)::int AS number,
        max(leaves) FILTER (WHERE NOT has_slot) AS leaves
    FROM judged
    GROUP BY tenant_id
),
-- The starts of each tenant in this minute. No other step writes these rows.
counted AS (
    INSERT INTO tenantcron.tenant_start AS c (tenant_id, minute, number)
    SELECT s.tenant_id, allowed.minute, s.number
    FROM started AS s, allowed
    WHERE s.number > 0
    ON CONFLICT (tenant_id) DO UPDATE
    SET
        minute = excluded.minute,
        number = excluded.number + CASE WHEN c.minute = excluded.minute THEN c.number ELSE 0 END
    -- [no quotas]
    RETURNING tenant_id, number
    -- [end]
),
-- [shares]
-- How far each priority is after this claim, for tenants with several priorities pending. A priority
-- without pending executions is moved to where another one began last, so it saves up nothing.
moved AS MATERIALIZED (
    SELECT
        pending.tenant_id, class.priority, count(picked.id) > 0 AS is_pending,
        count(picked.id) > count(*) FILTER (WHERE judged.starts) AS is_left,
        t.passes[class.priority + 1]
        + count(*) FILTER (WHERE judged.starts) * (12 / (4 - class.priority)) AS pass
    FROM (
        SELECT tenant_id
        FROM picked
        GROUP BY tenant_id
        HAVING min(priority) < max(priority)
    ) AS pending
    JOIN tenant AS t ON t.tenant_id = pending.tenant_id
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS class (priority)
    LEFT JOIN picked ON picked.tenant_id = pending.tenant_id AND picked.priority = class.priority
    LEFT JOIN judged ON judged.id = picked.id
    GROUP BY pending.tenant_id, class.priority, t.passes
),
-- Whether executions are left pending for lack of slots. If all slots are taken, it is assumed.
scarcity AS MATERIALIZED (
    SELECT
        EXISTS (SELECT FROM moved WHERE is_left)
        OR EXISTS (SELECT FROM judged WHERE place > free.slots - leaves)
        OR free.slots = (SELECT count(*) FROM judged WHERE starts) AND EXISTS (
            SELECT FROM tenant WHERE status = 'active' AND running < most
        ) AS is_scarce,
        -- Of the tenants with executions to start, the one that has used the least.
        (SELECT min(virtual_time) FROM judged) AS virtual_time
    FROM free
),
scarce_since AS (
    INSERT INTO tenantcron.share_period (since, waited_at, virtual_time)
    SELECT clock.now, clock.now, coalesce(scarcity.virtual_time, 0)
    FROM clock
    CROSS JOIN scarcity
    LEFT JOIN period ON true
    WHERE
        scarcity.is_scarce AND (
            period.since IS NULL OR period.waited_at < clock.now - %(scarce_for)s::interval / 10
            OR period.virtual_time < scarcity.virtual_time
        )
    ON CONFLICT (only_row) DO UPDATE
    SET
        since = coalesce((SELECT since FROM period), excluded.since),
        waited_at = excluded.waited_at,
        virtual_time = greatest((SELECT virtual_time FROM period), excluded.virtual_time)
),
passed AS MATERIALIZED (
    SELECT
        tenant_id, array_agg(least(pass - least_pass, 12)::smallint ORDER BY priority) AS passes
    FROM (
        SELECT tenant_id, priority, pass, min(pass) OVER (PARTITION BY tenant_id) AS least_pass
        FROM (
            SELECT
                tenant_id, priority,
                CASE WHEN is_pending THEN pass ELSE greatest(
                    pass,
                    max(pass - 12 / (4 - priority)) FILTER (WHERE is_pending) OVER (
                        PARTITION BY tenant_id
                    )
                ) END AS pass
            FROM moved
        ) AS reached
    ) AS relative
    GROUP BY tenant_id
),
-- What the next claims need to know of the tenants that have started executions.
shared AS (
    INSERT INTO tenantcron.tenant_share (tenant_id, passes, since, virtual_time, counted)
    SELECT
        t.tenant_id, coalesce(passed.passes, t.passes), coalesce(period.since, clock.now),
        -- Running executions are charged when they end.
        t.virtual_time + s.number * %(least_charge)s::float8 / t.weight - t.in_flight, t.counted
    FROM started AS s
    JOIN tenant AS t ON t.tenant_id = s.tenant_id
    CROSS JOIN scarcity
    CROSS JOIN clock
    LEFT JOIN period ON true
    LEFT JOIN passed ON passed.tenant_id = s.tenant_id
    WHERE s.number > 0 AND (scarcity.is_scarce OR period.since IS NOT NULL)
    ON CONFLICT (tenant_id) DO UPDATE
    SET
        passes = excluded.passes, since = excluded.since, virtual_time = excluded.virtual_time,
        counted = excluded.counted
),
-- [end]
-- The tenants that cannot start more executions, and the reason.
full_up AS (
    SELECT
        t.tenant_id,
        CASE
            WHEN t.status IS DISTINCT FROM 'active' THEN %(tenant_inactive)s::text
            WHEN t.running + coalesce(s.number, 0) >= t.slots THEN %(tenant_limit)s
            -- [quotas]
            WHEN t.running + coalesce(s.number, 0) >= t.most THEN %(start_quota)s
            -- [end]
            ELSE %(limit)s
        END AS reason_code,
        CASE
            WHEN t.status IS NULL THEN 'removed'
            WHEN t.status <> 'active' THEN concat_ws(': ', t.status, t.status_reason)
            WHEN t.running + coalesce(s.number, 0) >= t.slots
                THEN format('%%s of %%s running', t.running + coalesce(s.number, 0), t.slots)
            -- [quotas]
            WHEN t.running + coalesce(s.number, 0) >= t.most THEN ''
            -- [end]
            ELSE format(
                'the last %%s slots are for tenants that run nothing, this one runs %%s',
                s.leaves, t.running + s.number
            )
        END AS reason
    FROM tenant AS t LEFT JOIN started AS s ON s.tenant_id = t.tenant_id
    WHERE
        t.status IS DISTINCT FROM 'active' OR t.running + coalesce(s.number, 0) >= t.most
        OR s.leaves > 0
)
-- The first row describes the claim, the others are the executions that it decided on. What these
-- have in common is in the first row only: reading thousands of values a second has its price.
SELECT
    (SELECT slots FROM free) - (SELECT count(*) FROM judged WHERE starts) AS slots,
    -- Where the next claim continues; null if this one considered all tenants.
    (SELECT tenant_id FROM horizon) AS last_tenant,
    -- Whether anything was pending that this replica can run, and whether slots are left to others.
    EXISTS (SELECT FROM pair WHERE is_own) AS has_own,
    -- [no quotas]
    EXISTS (
        SELECT FROM counted AS c JOIN tenant AS t ON t.tenant_id = c.tenant_id, allowed
        WHERE
            c.number > CASE
                WHEN t.quotas = '{}' AND allowed.tenant_quotas IS NULL THEN allowed.starts
                ELSE coalesce(
                    (t.quotas ->> 'starts_per_minute')::int,
                    (allowed.tenant_quotas -> c.tenant_id ->> 'starts_per_minute')::int,
                    allowed.starts
                )
            END
    ) AS is_over_quota,
    -- [quotas]
    false AS is_over_quota,
    -- [end]
    EXISTS (SELECT FROM judged WHERE has_slot AND NOT is_own) AS leaves_slots,
    -- Executions of the previous release, whose requirement has to be decided first.
    EXISTS (
        SELECT FROM tenantcron.execution_live AS e
        WHERE e.state <> 'RUNNING' AND e.requires IS NULL
    ) AS has_undecided,
    -- Also if the tenant has no free slot: the replaced execution frees one.
    EXISTS (
        SELECT FROM picked WHERE is_second AND overlap = 'cancel_running' AND turn = 1
    ) OR EXISTS (SELECT FROM active WHERE is_replaceable AND NOT is_leaving) AND EXISTS (
        SELECT FROM tenantcron.execution_live AS e
        WHERE
            e.state <> 'RUNNING' AND e.state NOT IN ('RETRYING', 'FAILED')
            AND e.requires = ANY(%(requires)s::text[])
            AND e.overlap = 'cancel_running' AND e.attempt = 0 AND e.actor_source <> 'manual'
            AND e.not_before <= coalesce(%(at)s::timestamptz, statement_timestamp())
            AND e.schedule_id IN (SELECT a.schedule_id FROM active AS a WHERE NOT a.is_leaving)
    ) AS must_replace,
    array(
        SELECT ARRAY[tenant_id, reason_code, reason] FROM full_up ORDER BY tenant_id
    ) AS full_up,
    -- [shares]
    (SELECT is_scarce FROM scarcity) OR EXISTS (SELECT FROM period) AS is_scarce,
    -- [plain]
    (SELECT is_scarce FROM demand) AS is_scarce,
    -- [end]
    clock.now,
    clock.token,
    -- The delay of each start in seconds. A lost execution keeps its place in the queue, so its delay
    -- would include the previous attempt.
    array(
        SELECT extract(epoch FROM clock.now - not_before)::float8 FROM taken WHERE losses = 0
    ) AS lateness,
    NULL AS state,
    NULL AS reason_code,
    NULL AS id,
    NULL AS scheduled_for,
    NULL AS tenant_id,
    NULL AS schema_name,
    NULL AS schedule_id,
    NULL AS schedule_name,
    NULL AS saga_name,
    NULL AS definition_id,
    NULL AS attempt,
    NULL AS attempts_allowed,
    NULL AS losses,
    NULL AS suspicion,
    NULL AS actor_id,
    NULL AS actor_type,
    NULL AS actor_source
FROM clock
UNION ALL
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    e.state, e.reason_code, e.id, e.scheduled_for, e.tenant_id, e.schema_name, e.schedule_id,
    e.schedule_name, e.saga_name, e.definition_id, e.attempt, e.attempts_allowed,
    e.losses, e.suspicion, e.actor_id, e.actor_type, e.actor_source
FROM (SELECT * FROM taken UNION ALL SELECT * FROM ended) AS e
