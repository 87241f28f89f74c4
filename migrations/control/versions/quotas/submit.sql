-- The only statement that adds tasks: those of one tenant, in the transaction of its caller. It
-- accepts all of them or rejects the batch with all problems. `at` is the time of the submission.
CREATE OR REPLACE FUNCTION tenantcron.submit_tasks_at(of_tenant text, tasks json, at timestamptz)
    RETURNS TABLE (index int, id uuid, state text, execute_at timestamptz, existed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off AS $function$
#variable_conflict use_column
DECLARE
    names CONSTANT text := '^[a-z][a-z0-9_-]{0,127}$';
    durations CONSTANT text := '^(?=.)([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$';
    priorities CONSTANT text[] := ARRAY['critical', 'high', 'medium', 'low'];
    most_in_a_batch CONSTANT int := 1000;
    -- A scheduler sleeps for at most 10 s, so it sees tasks that are due later in time.
    soon CONSTANT interval := interval '15 s';
    status text;
    quotas jsonb;
    most_pending bigint;
    most_bytes bigint;
    most_stored bigint;
    -- No quota allows larger payloads.
    largest_payload CONSTANT bigint := 1048576;
    pending bigint;
    stored bigint;
    who record;
    is_held boolean;
    problems jsonb;
    ids uuid[];
    times timestamptz[];
    keys text[];
    hashes bytea[];
    added_ids uuid[];
    has_fired boolean;
    next_at timestamptz;
BEGIN
    IF json_typeof(tasks) IS DISTINCT FROM 'array'
        OR json_array_length(tasks) NOT BETWEEN 1 AND most_in_a_batch
    THEN
        PERFORM tenantcron.reject_tasks('TC400', jsonb_build_array(jsonb_build_object(
            'index', NULL, 'field', NULL, 'code', 'batch_size', 'message',
            format('a batch is an array of 1 to %s tasks', most_in_a_batch))));
    END IF;
    SELECT t.status, l.quotas || coalesce(l.tenant_quotas -> of_tenant, '{}') || t.quotas
        INTO status, quotas
        FROM tenantcron.tenant AS t CROSS JOIN tenantcron.limits AS l WHERE t.id = of_tenant;
    IF status IS NULL THEN
        PERFORM tenantcron.reject_tasks('TC404', jsonb_build_array(jsonb_build_object(
            'index', NULL, 'field', 'tenant', 'code', 'unknown_tenant', 'message',
            format('the tenant %L does not exist', of_tenant))));
    ELSIF status <> 'active' THEN
        PERFORM tenantcron.reject_tasks('TC409', jsonb_build_array(jsonb_build_object(
            'index', NULL, 'field', 'tenant', 'code', 'tenant_inactive', 'message',
            format('the tenant %L is %s', of_tenant, status))));
    END IF;
    most_pending := coalesce((quotas ->> 'pending_tasks')::bigint, 10000);
    most_bytes := coalesce((quotas ->> 'payload_bytes')::bigint, 262144);
    most_stored := coalesce((quotas ->> 'stored_bytes')::bigint, 1073741824);
    -- A role that may write audit records may name the actor. Any other role is the actor itself.
    IF has_table_privilege(session_user, 'tenantcron.audit_record', 'INSERT') THEN
        SELECT * INTO who FROM tenantcron.acting();
    ELSE
        SELECT session_user::text AS changed_by, 'worker' AS actor_type, 'sql' AS actor_source,
            false AS authenticated INTO who;
    END IF;
    -- Replicas of the release before would end executions of tasks, so tasks wait for the upgrade.
    is_held := tenantcron.has_former_replica();

    WITH given AS MATERIALIZED (
        SELECT
            g.place::int - 1 AS index, coalesce(g.saga, kind.name) AS saga, g.target, g.retry,
            g.timeout, g.owner, g.execute_at AS wanted_at, g.delay, g.idempotency_key,
            coalesce(g.priority, 'medium') AS priority, coalesce(g.payload, '{}') AS payload,
            coalesce(kind.name, 'saga:' || g.saga) AS requires,
            greatest(coalesce(g.execute_at, at + g.delay, at), at) AS execute_at,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS microseconds
        FROM ROWS FROM (
            json_to_recordset(tasks) AS (
                saga text, target jsonb, execute_at timestamptz, delay interval, priority text,
                payload json, idempotency_key text, retry jsonb, timeout text, owner text
            )
        ) WITH ORDINALITY AS g (
            saga, target, execute_at, delay, priority, payload, idempotency_key, retry, timeout,
            owner, place
        )
        LEFT JOIN LATERAL (
            SELECT min(key) AS name
            FROM jsonb_object_keys(
                CASE jsonb_typeof(g.target) WHEN 'object' THEN g.target END
            ) AS key
            HAVING count(*) = 1
        ) AS kind ON true
    ),
    problem AS MATERIALIZED (
        SELECT g.index, f.field, f.code, f.message
        FROM given AS g CROSS JOIN LATERAL (VALUES
            (g.saga IS NULL OR g.saga !~ names, 'saga', 'invalid_saga',
                'a saga is a-z first, then a-z, 0-9, _ or -, at most 128 characters'),
            (g.target IS NOT NULL AND g.requires LIKE 'saga:%', 'target', 'invalid_target',
                'a target is an object with one key, its kind'),
            (g.wanted_at IS NOT NULL AND g.delay IS NOT NULL, 'delay', 'two_times',
                'give execute_at or delay, not both'),
            (g.delay < interval '0', 'delay', 'invalid_delay', 'a delay is not negative'),
            (g.execute_at > at + interval '10 years', 'execute_at', 'too_far',
                'a task is at most 10 years ahead'),
            (g.priority <> ALL (priorities), 'priority', 'invalid_priority',
                'a priority is critical, high, medium or low'),
            (json_typeof(g.payload) <> 'object', 'payload', 'invalid_payload',
                'a payload is an object'),
            (octet_length(g.payload::text) > most_bytes, 'payload', 'payload_bytes',
                format('a payload of this tenant has at most %s bytes', most_bytes)),
            (g.idempotency_key !~ '^[!-~]{1,255}$', 'idempotency_key', 'invalid_key',
                'a key has 1 to 255 printable ASCII characters without spaces'),
            (g.timeout !~ durations, 'timeout', 'invalid_timeout',
                'a timeout is a duration such as 90s or 1h30m'),
            (g.owner !~ '^user:[A-Za-z0-9][A-Za-z0-9._@+|=-]{0,127}$', 'owner', 'invalid_owner',
                'an owner is user: and an id of at most 128 characters'),
            (g.retry IS NOT NULL AND NOT coalesce(
                jsonb_typeof(g.retry) = 'object'
                AND g.retry - ARRAY['max_attempts', 'backoff', 'max_backoff'] = '{}'
                AND coalesce(g.retry ->> 'max_attempts', '3') ~ '^([1-9]|1[0-9]|20)$'
                AND coalesce(g.retry ->> 'backoff', '1s') ~ durations
                AND coalesce(g.retry ->> 'max_backoff', '1m') ~ durations, false
            ), 'retry', 'invalid_retry',
                'retry has max_attempts from 1 to 20, and the durations backoff and max_backoff')
        ) AS f (is_problem, field, code, message)
        WHERE f.is_problem
    ),
    -- The id is a UUID of version 7: its first 60 bits are the time, so ids sort by submission.
    identified AS MATERIALIZED (
        SELECT
            g.*,
            encode(set_byte(set_byte(overlay(
                uuid_send(gen_random_uuid())
                PLACING substring(int8send(g.microseconds / 1000) FROM 3) FROM 1
            ), 6, 112 + (g.microseconds % 1000 * 4096 / 256000)::int),
            7, (g.microseconds % 1000 * 4096 / 1000 % 256)::int), 'hex')::uuid AS id,
            CASE WHEN g.idempotency_key IS NOT NULL THEN
                sha256(convert_to(jsonb_build_array(
                    g.saga, g.wanted_at, g.delay, g.priority, g.payload::jsonb, g.retry, g.timeout,
                    g.owner, g.target
                )::text, 'UTF8'))
            END AS request_hash
        FROM given AS g
        WHERE NOT EXISTS (SELECT FROM problem)
    ),
    added AS (
        INSERT INTO tenantcron.task (
            id, tenant_id, saga_name, execute_at, priority, definition, payload, idempotency_key,
            request_hash, requires, submitted_at, actor_id, actor_type, actor_source,
            authenticated, fired_at, payload_bytes
        )
        SELECT
            i.id, of_tenant, i.saga, i.execute_at, array_position(priorities, i.priority) - 1,
            CASE WHEN num_nonnulls(i.retry, i.timeout, i.owner, i.target) > 0 THEN
                jsonb_strip_nulls(jsonb_build_object('timeout', i.timeout, 'owner', i.owner))
                || CASE WHEN i.target IS NULL THEN '{}' ELSE jsonb_build_object('target', i.target) END
                || CASE WHEN i.retry IS NULL THEN '{}' ELSE jsonb_build_object('retry',
                    '{"max_attempts": 3, "backoff": "1s", "max_backoff": "1m"}'::jsonb || i.retry)
                END
            END,
            i.payload::jsonb, i.idempotency_key, i.request_hash, i.requires, at, who.changed_by,
            who.actor_type, who.actor_source, who.authenticated,
            CASE WHEN i.execute_at <= at AND NOT is_held THEN at END,
            octet_length(i.payload::text)
        FROM identified AS i
        -- In a fixed order, to prevent deadlocks between batches with the same keys.
        ORDER BY i.idempotency_key, i.index
        ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING *
    ),
    -- A task that is due now gets its execution at once: both exist, or neither.
    fired AS (
        INSERT INTO tenantcron.execution (
            id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for,
            state, overlap, priority, not_before, attempts_allowed, actor_id, actor_type,
            actor_source, created_at, requires
        )
        SELECT
            a.id, a.tenant_id, a.id, left('task:' || a.saga_name, 128), a.saga_name, a.id,
            a.execute_at, 'PENDING', 'allow', a.priority, a.execute_at,
            coalesce((a.definition #>> '{retry,max_attempts}')::int, 3), a.actor_id, a.actor_type,
            'task', at, a.requires
        FROM added AS a
        WHERE a.fired_at IS NOT NULL
    )
    SELECT
        (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.index, p.field) FROM problem AS p),
        a.ids, a.has_fired, a.next_at, i.ids, i.times, i.keys, i.hashes
    INTO problems, added_ids, has_fired, next_at, ids, times, keys, hashes
    FROM (
        SELECT
            array_agg(id) AS ids, coalesce(bool_or(fired_at IS NOT NULL), false) AS has_fired,
            min(execute_at) FILTER (WHERE fired_at IS NULL) AS next_at
        FROM added
    ) AS a, (
        SELECT
            array_agg(id ORDER BY index) AS ids, array_agg(execute_at ORDER BY index) AS times,
            array_agg(idempotency_key ORDER BY index) AS keys,
            array_agg(request_hash ORDER BY index) AS hashes
        FROM identified
    ) AS i;
    IF problems IS NOT NULL THEN
        PERFORM tenantcron.reject_tasks('TC400', problems);
    END IF;

    IF added_ids IS NOT NULL THEN
        -- Each count reads at most as many index entries as the quota allows.
        SELECT count(*) INTO pending FROM (
            SELECT FROM tenantcron.task AS t
            WHERE t.tenant_id = of_tenant AND t.fired_at IS NULL LIMIT most_pending + 1
        ) AS waiting;
        IF pending <= most_pending THEN
            SELECT pending + count(*) INTO pending FROM (
                SELECT FROM tenantcron.execution_live AS e
                WHERE e.tenant_id = of_tenant AND e.schedule_id = e.id AND e.state <> 'RUNNING'
                LIMIT most_pending + 1
            ) AS fired;
        END IF;
        IF pending > most_pending THEN
            PERFORM tenantcron.reject_tasks('TC429', jsonb_build_array(jsonb_build_object(
                'index', NULL, 'field', NULL, 'code', 'pending_tasks', 'message',
                format('the tenant %L may have %s pending tasks', of_tenant, most_pending))));
        END IF;
        -- Few tasks cannot exceed the quota of stored bytes, so their sizes are not read.
        IF pending * largest_payload > most_stored THEN
            SELECT coalesce(sum(t.payload_bytes), 0) INTO stored
                FROM tenantcron.task AS t WHERE t.tenant_id = of_tenant AND t.fired_at IS NULL;
            SELECT stored + coalesce(sum(t.payload_bytes), 0) INTO stored
                FROM tenantcron.execution_live AS e JOIN tenantcron.task AS t ON t.id = e.id
                WHERE e.tenant_id = of_tenant AND e.schedule_id = e.id AND e.state <> 'RUNNING';
        END IF;
        IF stored > most_stored THEN
            PERFORM tenantcron.reject_tasks('TC429', jsonb_build_array(jsonb_build_object(
                'index', NULL, 'field', NULL, 'code', 'stored_bytes', 'message',
                format('payloads of pending tasks of the tenant %L may have %s bytes', of_tenant,
                    most_stored))));
        END IF;
        -- Postgres sends equal notifications of a transaction once, at its commit.
        IF has_fired THEN
            PERFORM pg_notify('tenantcron_work', 'task');
        END IF;
        IF next_at <= at + soon THEN
            PERFORM pg_notify('tenantcron_work', 'task soon');
        END IF;
    END IF;

    IF cardinality(added_ids) = cardinality(ids) THEN
        RETURN QUERY
            SELECT
                g.place::int - 1, g.id,
                CASE WHEN g.execute_at <= at AND NOT is_held THEN 'PENDING' ELSE 'WAITING' END,
                g.execute_at, false
            FROM unnest(ids, times) WITH ORDINALITY AS g (id, execute_at, place)
            ORDER BY g.place;
        RETURN;
    END IF;
    -- Some keys were used before. A new statement sees what other transactions have committed.
    SELECT jsonb_agg(jsonb_build_object(
            'index', g.place - 1, 'field', 'idempotency_key', 'code', 'idempotency_conflict',
            'message', format('the key %L was used for another request', g.key)
        ) ORDER BY g.place)
        INTO problems
        FROM unnest(keys, hashes) WITH ORDINALITY AS g (key, hash, place)
        JOIN tenantcron.task AS t ON t.tenant_id = of_tenant AND t.idempotency_key = g.key
        WHERE t.request_hash <> g.hash;
    IF problems IS NOT NULL THEN
        PERFORM tenantcron.reject_tasks('TC409', problems);
    END IF;
    RETURN QUERY
        SELECT
            g.place::int - 1, t.id,
            CASE WHEN t.fired_at IS NULL THEN 'WAITING' ELSE coalesce(e.state, 'PENDING')::text END,
            t.execute_at, t.id <> g.id
        FROM unnest(ids, keys) WITH ORDINALITY AS g (id, key, place)
        JOIN tenantcron.task AS t
            ON t.id = g.id OR t.tenant_id = of_tenant AND t.idempotency_key = g.key
        LEFT JOIN tenantcron.execution AS e
            ON e.id = t.id AND e.scheduled_for = least(t.execute_at, t.fired_at)
        ORDER BY g.place;
END
$function$;
