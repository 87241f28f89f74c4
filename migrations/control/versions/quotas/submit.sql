-- The error of a rejected batch. DETAIL is a JSON array of objects with `index`, `field`, `code` and
-- `message`; the index and the field are null for problems of the batch.
CREATE FUNCTION tenantcron.reject_tasks(error_code text, problems jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = error_code,
        MESSAGE = 'tasks rejected: ' || (problems -> 0 ->> 'message')
            || CASE WHEN jsonb_array_length(problems) > 1
                THEN format(' (and %s more problems)', jsonb_array_length(problems) - 1)
                ELSE '' END,
        DETAIL = problems::text,
        HINT = 'Nothing was submitted. Fix all problems in DETAIL and submit again.';
END
$function$;

-- Whether a JSON value is a duration such as 1h30m, within bounds.
CREATE FUNCTION tenantcron.is_duration(given jsonb, lowest interval, highest interval)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
    SELECT CASE
        WHEN jsonb_typeof(given) = 'string' AND given #>> '{}'
            ~ '^(?=.)([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$'
        THEN (given #>> '{}')::interval BETWEEN lowest AND highest
        ELSE false
    END
$function$;

-- Problems of what a task has besides its saga, time, priority, payload and key. Most tasks of a
-- batch have the same settings, or none, so each is checked once.
CREATE FUNCTION tenantcron.task_setting_problems(settings jsonb, kinds text[])
    RETURNS TABLE (field text, code text, message text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
    SELECT f.key, f.code, f.message
    FROM jsonb_each(settings) AS s CROSS JOIN LATERAL (
        SELECT
            s.key, 'unknown_field' AS code,
            format('a task has no field %s', to_json(left(s.key, 64))) AS message
        WHERE s.key NOT IN ('target', 'retry', 'timeout', 'owner')
        UNION ALL
        SELECT v.*
        FROM (VALUES
            ('target', 'invalid_target',
                'a target is an object with one key, its kind, and the options of that'),
            ('retry', 'invalid_retry',
                'retry has max_attempts, a number from 1 to 20, and the durations backoff and'
                ' max_backoff, at most 1d; backoff is not the longer one'),
            ('timeout', 'invalid_timeout',
                'a timeout is a duration such as 90s or 1h30m, from 1s to 1d'),
            ('owner', 'invalid_owner', 'an owner is user: and an id of at most 128 characters')
        ) AS v (field, code, message)
        WHERE
            v.field = s.key AND s.value <> 'null' AND NOT CASE s.key
                WHEN 'target' THEN jsonb_typeof(s.value) = 'object' AND coalesce((
                    SELECT count(*) = 1 AND bool_and(jsonb_typeof(t.value) = 'object')
                    FROM jsonb_each(CASE jsonb_typeof(s.value) WHEN 'object' THEN s.value END) AS t
                ), false)
                WHEN 'timeout' THEN tenantcron.is_duration(s.value, '1 s', '1 day')
                WHEN 'owner' THEN jsonb_typeof(s.value) = 'string'
                    AND s.value #>> '{}' ~ '^user:[A-Za-z0-9][A-Za-z0-9._@+|=-]{0,127}$'
                WHEN 'retry' THEN jsonb_typeof(s.value) = 'object' AND coalesce((
                    SELECT bool_and(CASE r.key
                        WHEN 'max_attempts' THEN jsonb_typeof(r.value) = 'number'
                            AND r.value #>> '{}' ~ '^([1-9]|1[0-9]|20)$'
                        WHEN 'backoff' THEN tenantcron.is_duration(r.value, '0', '1 day')
                        WHEN 'max_backoff' THEN tenantcron.is_duration(r.value, '0', '1 day')
                        ELSE false
                    END OR r.value = 'null' AND r.key IN ('max_attempts', 'backoff', 'max_backoff'))
                    FROM jsonb_each(CASE jsonb_typeof(s.value) WHEN 'object' THEN s.value END) AS r
                ), true) AND NOT CASE
                    WHEN tenantcron.is_duration(s.value -> 'backoff', '0', '1 day')
                        AND tenantcron.is_duration(s.value -> 'max_backoff', '0', '1 day')
                    THEN (s.value ->> 'backoff')::interval > (s.value ->> 'max_backoff')::interval
                    ELSE false
                END
            END
        UNION ALL
        SELECT
            s.key, 'unknown_target_kind',
            format('%s is not a kind of target: use one of %s', to_json(left(t.kind, 64)),
                array_to_string(kinds, ', '))
        FROM jsonb_object_keys(
            CASE WHEN s.key = 'target' AND jsonb_typeof(s.value) = 'object' THEN s.value END
        ) AS t (kind)
        WHERE t.kind <> ALL (kinds)
    ) AS f
$function$;

-- JSON with a mark, a character that is none, instead of escapes that Postgres cannot store: those of
-- NUL and of unpaired surrogates. All other functions fail with such JSON, whatever they look for.
CREATE FUNCTION tenantcron.marked_escapes(given json) RETURNS json
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
    -- A pair of backslashes is one character. JSON has no control characters, so one replaces it.
    SELECT replace(
        regexp_replace(
            regexp_replace(
                replace(given::text, '\\', chr(1)),
                '\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '?', 'g'
            ),
            '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', chr(64976), 'g'
        ),
        chr(1), '\\'
    )::json
$function$;

-- All problems of one task. It is called for tasks of batches that are rejected.
CREATE FUNCTION tenantcron.task_problems(
    task json, at timestamptz, most_bytes bigint, kinds text[]
) RETURNS TABLE (field text, code text, message text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC'
    SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' AS $function$
#variable_conflict use_column
DECLARE
    given jsonb := '{}';
    unusable text[] := '{}';
    mark CONSTANT text := chr(64976);
    member record;
    is_usable boolean;
    wanted_at timestamptz;
    wanted_delay interval;
    execute_at timestamptz;
BEGIN
    IF json_typeof(task) <> 'object' THEN
        RETURN QUERY SELECT NULL, 'invalid_task', 'a task is an object';
        RETURN;
    END IF;
    BEGIN
        given := task::jsonb;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        FOR member IN SELECT j.key, j.value FROM json_each(tenantcron.marked_escapes(task)) AS j LOOP
            BEGIN
                given := given || jsonb_build_object(member.key, member.value::jsonb);
                is_usable := strpos(given::text, mark) = 0;
            EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
                is_usable := false;
            END;
            IF NOT is_usable THEN
                given := given - member.key;
                unusable := unusable || member.key;
                RETURN QUERY SELECT
                    replace(member.key, mark, ''), 'not_storable',
                    'has a NUL, an unpaired surrogate or a number that is too large';
            END IF;
        END LOOP;
    END;
    BEGIN
        wanted_at := given ->> 'execute_at';
        IF jsonb_typeof(given -> 'execute_at') NOT IN ('string', 'null') THEN
            RAISE data_exception;
        END IF;
    EXCEPTION WHEN data_exception THEN
        unusable := unusable || 'execute_at'::text;
        RETURN QUERY SELECT 'execute_at', 'invalid_time',
            'a time is in ISO 8601, such as 2026-12-01T09:00:00Z';
    END;
    BEGIN
        wanted_delay := given ->> 'delay';
    EXCEPTION WHEN data_exception THEN
        unusable := unusable || 'delay'::text;
        RETURN QUERY SELECT 'delay', 'invalid_delay',
            'a delay is an interval of Postgres, such as 90 s';
    END;
    BEGIN
        execute_at := coalesce(wanted_at, at + wanted_delay);
    EXCEPTION WHEN data_exception THEN
        execute_at := 'infinity';
    END;
    RETURN QUERY
        SELECT f.field, f.code, f.message
        FROM (VALUES
            (CASE
                WHEN given ->> 'saga' IS NULL
                    THEN coalesce(jsonb_typeof(given -> 'target'), 'null') = 'null'
                ELSE jsonb_typeof(given -> 'saga') <> 'string'
                    OR given ->> 'saga' !~ '^[a-z][a-z0-9_-]{0,127}$'
            END, 'saga', 'invalid_saga',
                'a saga is a-z first, then a-z, 0-9, _ or -, at most 128 characters'),
            (given ->> 'execute_at' IS NOT NULL AND given ->> 'delay' IS NOT NULL, 'delay',
                'two_times', 'give execute_at or delay, not both'),
            (wanted_delay < interval '0', 'delay', 'invalid_delay', 'a delay is not negative'),
            (execute_at > at + interval '10 years', 'execute_at', 'too_far',
                'a task is at most 10 years ahead'),
            (NOT coalesce(given -> 'priority', 'null')
                <@ '["critical", "high", "medium", "low", null]', 'priority', 'invalid_priority',
                'a priority is critical, high, medium or low'),
            (jsonb_typeof(given -> 'payload') NOT IN ('object', 'null'), 'payload',
                'invalid_payload', 'a payload is an object'),
            (octet_length((given -> 'payload')::text) > most_bytes, 'payload', 'payload_bytes',
                format('a payload of this tenant has at most %s bytes', most_bytes)),
            (given ->> 'idempotency_key' IS NOT NULL AND (
                jsonb_typeof(given -> 'idempotency_key') <> 'string'
                OR given ->> 'idempotency_key' !~ '^[!-~]{1,255}$'
            ), 'idempotency_key', 'invalid_key',
                'a key has 1 to 255 printable ASCII characters without spaces')
        ) AS f (is_problem, field, code, message)
        WHERE f.is_problem AND f.field <> ALL (unusable)
        UNION ALL
        SELECT s.field, s.code, s.message
        FROM tenantcron.task_setting_problems(
            given - ARRAY['saga', 'execute_at', 'delay', 'priority', 'payload', 'idempotency_key'],
            kinds
        ) AS s;
END
$function$;

-- All problems of a batch, as `reject_tasks` takes them; null if there is none.
CREATE FUNCTION tenantcron.batch_problems(
    tasks json, at timestamptz, most_bytes bigint, kinds text[]
) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
    SELECT jsonb_agg(jsonb_build_object(
        'index', g.place - 1, 'field', p.field, 'code', p.code, 'message', p.message
    ) ORDER BY g.place, p.field, p.code)
    FROM json_array_elements(tasks) WITH ORDINALITY AS g (task, place)
    CROSS JOIN LATERAL tenantcron.task_problems(g.task, at, most_bytes, kinds) AS p
$function$;

-- Add to the upper bounds of what is pending for a tenant, and return them. A bound is the sum of a
-- few rows. A transaction changes one that no other has locked, or adds one, so transactions never
-- wait for each other. A start does not lower the bounds; the next two functions correct them.
CREATE FUNCTION tenantcron.raise_pending(
    of_tenant text, more_tasks bigint, more_bytes bigint,
    OUT part int, OUT tasks bigint, OUT bytes bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
#variable_conflict use_column
DECLARE
    own int;
BEGIN
    -- With another isolation, a row that has changed since the snapshot cannot be locked.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    SELECT p.part INTO own
        FROM tenantcron.tenant_pending AS p WHERE p.tenant_id = of_tenant
        ORDER BY p.part LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE tenantcron.tenant_pending AS p
            SET tasks = p.tasks + more_tasks, bytes = p.bytes + more_bytes
            WHERE p.tenant_id = of_tenant AND p.part = own;
    ELSE
        -- Others may add a row at the same time, so no number can be the next one.
        INSERT INTO tenantcron.tenant_pending AS p (tenant_id, part, tasks, bytes)
            VALUES (of_tenant, (random() * 2147483647)::int, more_tasks, more_bytes)
            RETURNING p.part INTO own;
    END IF;
    SELECT own, sum(p.tasks), sum(p.bytes) INTO part, tasks, bytes
        FROM tenantcron.tenant_pending AS p WHERE p.tenant_id = of_tenant;
END
$function$;

-- Count what is pending, up to one more than the quota, and correct the bound by the row that the
-- transaction has locked. All of it has one snapshot.
CREATE FUNCTION tenantcron.count_pending(of_tenant text, of_part int, most bigint) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $function$
    WITH counted AS MATERIALIZED (
        SELECT count(*) AS tasks FROM (
            SELECT FROM tenantcron.task AS t WHERE t.tenant_id = of_tenant AND t.fired_at IS NULL
            UNION ALL
            SELECT FROM tenantcron.execution_live AS e
            WHERE e.tenant_id = of_tenant AND e.schedule_id = e.id AND e.state <> 'RUNNING'
            LIMIT most + 1
        ) AS p
    ),
    corrected AS (
        UPDATE tenantcron.tenant_pending AS p
        SET tasks = p.tasks + c.tasks - (
            SELECT sum(s.tasks) FROM tenantcron.tenant_pending AS s WHERE s.tenant_id = of_tenant
        )
        FROM counted AS c
        WHERE p.tenant_id = of_tenant AND p.part = of_part AND c.tasks <= most
    )
    SELECT tasks FROM counted
$function$;

-- The same for the bytes of payloads.
CREATE FUNCTION tenantcron.sum_pending(of_tenant text, of_part int) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $function$
    WITH counted AS MATERIALIZED (
        SELECT coalesce(sum(payload_bytes), 0) AS bytes FROM (
            SELECT t.payload_bytes
            FROM tenantcron.task AS t WHERE t.tenant_id = of_tenant AND t.fired_at IS NULL
            UNION ALL
            SELECT t.payload_bytes
            FROM tenantcron.execution_live AS e JOIN tenantcron.task AS t ON t.id = e.id
            WHERE e.tenant_id = of_tenant AND e.schedule_id = e.id AND e.state <> 'RUNNING'
        ) AS p
    ),
    corrected AS (
        UPDATE tenantcron.tenant_pending AS p
        SET bytes = p.bytes + c.bytes - (
            SELECT sum(s.bytes) FROM tenantcron.tenant_pending AS s WHERE s.tenant_id = of_tenant
        )
        FROM counted AS c
        WHERE p.tenant_id = of_tenant AND p.part = of_part
    )
    SELECT bytes::bigint FROM counted
$function$;

-- The only statement that adds tasks: those of one tenant, in the transaction of its caller. It
-- accepts all of them or rejects the batch with all problems. `at` is the time of the submission.
CREATE FUNCTION tenantcron.submit_tasks_at(of_tenant text, tasks json, at timestamptz)
    RETURNS TABLE (index int, id uuid, state text, execute_at timestamptz, existed boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO, MDY'
    SET intervalstyle = 'postgres' SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off AS $function$
#variable_conflict use_column
DECLARE
    priorities CONSTANT text[] := ARRAY['critical', 'high', 'medium', 'low'];
    common CONSTANT text[] := ARRAY[
        'saga', 'execute_at', 'delay', 'priority', 'payload', 'idempotency_key'
    ];
    default_retry CONSTANT jsonb := '{"max_attempts": 3, "backoff": "1s", "max_backoff": "1m"}';
    most_in_a_batch CONSTANT int := 1000;
    -- A scheduler sleeps for at most 10 s, so it sees tasks that are due later in time.
    soon CONSTANT interval := interval '15 s';
    status text;
    quotas jsonb;
    kinds text[] := ARRAY['http', 'grpc', 'celery', 'temporal'];
    most_pending bigint;
    most_bytes bigint;
    most_stored bigint;
    -- No quota allows larger payloads.
    largest_payload CONSTANT bigint := 1048576;
    who record;
    is_held boolean;
    problems jsonb;
    base text;
    given tenantcron.task[];
    are_valid boolean;
    settings jsonb[];
    has_keys boolean;
    added tenantcron.task[];
    more_bytes bigint;
    has_fired boolean;
    next_at timestamptz;
    bound record;
    pending bigint;
    stored bigint;
BEGIN
    IF json_typeof(tasks) IS DISTINCT FROM 'array'
        OR json_array_length(tasks) NOT BETWEEN 1 AND most_in_a_batch
    THEN
        PERFORM tenantcron.reject_tasks('TC400', jsonb_build_array(jsonb_build_object(
            'index', NULL, 'field', NULL, 'code', 'batch_size', 'message',
            format('a batch is an array of 1 to %s tasks', most_in_a_batch))));
    END IF;
    SELECT
        t.status, l.quotas || coalesce(l.tenant_quotas -> of_tenant, '{}') || t.quotas,
        kinds || l.target_kinds
        INTO status, quotas, kinds
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
    -- The ids are UUIDs of version 7: 60 bits of time, then 46 random ones of the batch, then the
    -- place in it. So ids sort by submission.
    SELECT lpad(to_hex(c.microseconds / 1000), 12, '0')
            || to_hex(28672 + c.microseconds % 1000 * 4096 / 1000)
            || substr(r.random, 20, 4) || substr(r.random, 25, 8)
        INTO base
        FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS microseconds) AS c,
            (SELECT gen_random_uuid()::text AS random) AS r;

    -- One pass reads the batch. It only decides whether all tasks are valid; `task_problems` has the
    -- same rules, in words. The block writes nothing, so it needs no transaction id.
    BEGIN
        SELECT
            array_agg(ROW(
                (base || to_hex(4096 + g.place))::uuid, g.execute_at, at,
                CASE WHEN g.execute_at <= at AND NOT is_held THEN at END,
                g.bytes, g.priority - 1, who.authenticated, of_tenant, g.saga,
                coalesce(g.kind, 'saga:' || g.saga), who.changed_by, who.actor_type,
                who.actor_source, g.definition, g.payload, g.key,
                CASE WHEN g.key IS NOT NULL THEN
                    sha256(convert_to(jsonb_build_array(
                        g.saga, g.wanted_at, g.delay, g.priority, g.payload, g.definition
                    )::text, 'UTF8'))
                END
            )::tenantcron.task),
            bool_and(coalesce(
                g.saga ~ '^[a-z][a-z0-9_-]*$' AND length(g.saga) <= 128
                AND coalesce(jsonb_typeof(g.task -> 'saga'), 'null') IN ('string', 'null')
                AND jsonb_typeof(g.payload) = 'object' AND g.bytes <= most_bytes
                AND g.priority IS NOT NULL
                AND g.execute_at <= at + interval '10 years'
                AND (g.wanted_at IS NULL OR jsonb_typeof(g.task -> 'execute_at') = 'string')
                AND (g.delay IS NULL OR g.wanted_at IS NULL AND g.delay >= interval '0')
                AND (g.key IS NULL OR jsonb_typeof(g.task -> 'idempotency_key') = 'string'
                    AND g.key ~ '^[!-~]+$' AND length(g.key) <= 255),
                false
            )),
            array_agg(DISTINCT g.settings) FILTER (WHERE g.settings <> '{}'),
            bool_or(g.key IS NOT NULL), sum(g.bytes)
            INTO given, are_valid, settings, has_keys, more_bytes
            FROM (
                SELECT
                    f.*, coalesce(f.task ->> 'saga', f.kind) AS saga,
                    greatest(coalesce(f.wanted_at, at + f.delay, at), at) AS execute_at,
                    octet_length(f.payload::text) AS bytes,
                    CASE WHEN f.settings <> '{}' THEN nullif(
                        CASE WHEN f.settings ->> 'timeout' IS NULL THEN '{}'
                            ELSE jsonb_build_object('timeout', f.settings -> 'timeout') END
                        || CASE WHEN f.settings ->> 'owner' IS NULL THEN '{}'
                            ELSE jsonb_build_object('owner', f.settings -> 'owner') END
                        || CASE WHEN f.settings ->> 'target' IS NULL THEN '{}'
                            ELSE jsonb_build_object('target', f.settings -> 'target') END
                        || CASE WHEN f.settings ->> 'retry' IS NULL THEN '{}'
                            ELSE jsonb_build_object('retry', default_retry
                                || CASE WHEN (f.settings #>> '{retry,backoff}')::interval
                                    > (default_retry ->> 'max_backoff')::interval
                                THEN jsonb_build_object(
                                    'max_backoff', f.settings #> '{retry,backoff}'
                                ) ELSE '{}' END
                                || jsonb_strip_nulls(f.settings -> 'retry')) END,
                        '{}'
                    ) END AS definition
                FROM (
                    SELECT
                        e.task, e.place, e.task - common AS settings,
                        (e.task ->> 'execute_at')::timestamptz AS wanted_at,
                        (e.task ->> 'delay')::interval AS delay,
                        CASE WHEN e.task ->> 'priority' IS NULL THEN 3
                            ELSE array_position(priorities, e.task ->> 'priority') END AS priority,
                        coalesce(nullif(e.task -> 'payload', 'null'), '{}') AS payload,
                        e.task ->> 'idempotency_key' AS key,
                        CASE WHEN e.task ->> 'target' IS NOT NULL THEN
                            (SELECT min(k) FROM jsonb_object_keys(e.task -> 'target') AS k)
                        END AS kind
                    FROM jsonb_array_elements(tasks::jsonb) WITH ORDINALITY AS e (task, place)
                    OFFSET 0
                ) AS f
                OFFSET 0
            ) AS g;
        IF settings IS NOT NULL THEN
            are_valid := are_valid AND NOT EXISTS (
                SELECT FROM unnest(settings) AS s, tenantcron.task_setting_problems(s, kinds)
            );
        END IF;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        are_valid := false;
        problems := tenantcron.batch_problems(tasks, at, most_bytes, kinds);
        IF problems IS NULL THEN
            RAISE;
        END IF;
    END;
    IF NOT are_valid THEN
        problems := coalesce(problems, tenantcron.batch_problems(tasks, at, most_bytes, kinds));
        -- Payloads over the quota are no error of the request if they are the only problem.
        PERFORM tenantcron.reject_tasks(
            CASE WHEN problems @? '$[*] ? (@.code != "payload_bytes")' THEN 'TC400'
                ELSE 'TC429' END,
            problems
        );
    END IF;

    IF NOT has_keys THEN
        INSERT INTO tenantcron.task SELECT * FROM unnest(given);
        added := given;
    ELSE
        WITH inserted AS (
            -- In a fixed order, to prevent deadlocks between batches with the same keys.
            INSERT INTO tenantcron.task
                SELECT g.* FROM unnest(given) AS g ORDER BY g.idempotency_key, g.id
                ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL
                DO NOTHING
                RETURNING id
        )
        SELECT array_agg(g), sum(g.payload_bytes) INTO added, more_bytes
            FROM unnest(given) AS g JOIN inserted AS i ON i.id = g.id;
    END IF;
    IF added IS NOT NULL THEN
        SELECT bool_or(a.fired_at IS NOT NULL), min(a.execute_at) FILTER (WHERE a.fired_at IS NULL)
            INTO has_fired, next_at FROM unnest(added) AS a;
        -- A task that is due now gets its execution at once: both exist, or neither.
        IF has_fired THEN
            INSERT INTO tenantcron.execution (
                id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for,
                state, overlap, priority, not_before, attempts_allowed, actor_id, actor_type,
                actor_source, created_at, requires
            )
            SELECT
                a.id, of_tenant, a.id, left('task:' || a.saga_name, 128), a.saga_name, a.id,
                a.execute_at, 'PENDING', 'allow', a.priority, a.execute_at,
                coalesce((a.definition #>> '{retry,max_attempts}')::int, 3), a.actor_id,
                a.actor_type, 'task', at, a.requires
            FROM unnest(added) AS a
            WHERE a.fired_at IS NOT NULL;
            -- Postgres sends equal notifications of a transaction once, at its commit.
            PERFORM pg_notify('tenantcron_work', 'task');
        END IF;
        IF next_at <= at + soon THEN
            PERFORM pg_notify('tenantcron_work', 'task soon');
        END IF;

        SELECT * INTO bound
            FROM tenantcron.raise_pending(of_tenant, cardinality(added), more_bytes);
        -- Without a bound, few tasks cannot exceed the quota of bytes, so these are not read.
        pending := CASE WHEN bound.tasks <= most_pending THEN bound.tasks
            ELSE tenantcron.count_pending(of_tenant, bound.part, most_pending) END;
        stored := CASE WHEN coalesce(bound.bytes, pending * largest_payload) <= most_stored THEN 0
            ELSE tenantcron.sum_pending(of_tenant, bound.part) END;
        IF pending > most_pending THEN
            PERFORM tenantcron.reject_tasks('TC429', jsonb_build_array(jsonb_build_object(
                'index', NULL, 'field', NULL, 'code', 'pending_tasks', 'message',
                format('the tenant %L may have %s pending tasks', of_tenant, most_pending))));
        ELSIF stored > most_stored THEN
            PERFORM tenantcron.reject_tasks('TC429', jsonb_build_array(jsonb_build_object(
                'index', NULL, 'field', NULL, 'code', 'stored_bytes', 'message',
                format('payloads of pending tasks of the tenant %L may have %s bytes', of_tenant,
                    most_stored))));
        END IF;
    END IF;

    IF cardinality(added) = cardinality(given) THEN
        RETURN QUERY
            SELECT
                g.ordinality::int - 1, g.id,
                CASE WHEN g.fired_at IS NULL THEN 'WAITING' ELSE 'PENDING' END, g.execute_at, false
            FROM unnest(given) WITH ORDINALITY AS g;
        RETURN;
    END IF;
    -- Some keys were used before. A new statement sees what other transactions have committed.
    SELECT jsonb_agg(jsonb_build_object(
            'index', g.ordinality - 1, 'field', 'idempotency_key', 'code', 'idempotency_conflict',
            'message', format('the key %L was used for another request', g.idempotency_key)
        ) ORDER BY g.ordinality)
        INTO problems
        FROM unnest(given) WITH ORDINALITY AS g
        JOIN tenantcron.task AS t
            ON t.tenant_id = of_tenant AND t.idempotency_key = g.idempotency_key
        WHERE t.request_hash <> g.request_hash;
    IF problems IS NOT NULL THEN
        PERFORM tenantcron.reject_tasks('TC409', problems);
    END IF;
    RETURN QUERY
        SELECT
            g.ordinality::int - 1, t.id,
            CASE WHEN t.fired_at IS NULL THEN 'WAITING' ELSE coalesce(e.state, 'PENDING')::text END,
            t.execute_at, t.id <> g.id
        FROM unnest(given) WITH ORDINALITY AS g
        -- Two lookups by key. One with OR would read the index of all tasks.
        CROSS JOIN LATERAL (
            SELECT a.id, a.execute_at, a.fired_at FROM tenantcron.task AS a WHERE a.id = g.id
            UNION ALL
            SELECT k.id, k.execute_at, k.fired_at
            FROM tenantcron.task AS k
            WHERE k.tenant_id = of_tenant AND k.idempotency_key = g.idempotency_key AND k.id <> g.id
        ) AS t
        LEFT JOIN tenantcron.execution AS e
            ON e.id = t.id AND e.scheduled_for = least(t.execute_at, t.fired_at)
        ORDER BY g.ordinality;
END
$function$;

-- For applications: the time is that of the database.
CREATE FUNCTION tenantcron.submit_tasks(tenant text, tasks json)
    RETURNS TABLE (index int, id uuid, state text, execute_at timestamptz, existed boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    RETURN QUERY
        SELECT s.* FROM tenantcron.submit_tasks_at(tenant, tasks, statement_timestamp()) AS s;
END
$function$;

-- Submit one task and return its id; the same for a key that was used before.
CREATE FUNCTION tenantcron.submit_task(
    tenant text, saga text, payload json DEFAULT '{}', execute_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL, priority text DEFAULT 'medium', idempotency_key text DEFAULT NULL,
    retry json DEFAULT NULL, timeout interval DEFAULT NULL, owner text DEFAULT NULL,
    target json DEFAULT NULL
) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET intervalstyle = 'postgres' AS $function$
BEGIN
    RETURN (
        SELECT s.id
        FROM tenantcron.submit_tasks_at(
            tenant,
            json_build_array(json_build_object(
                'saga', saga, 'payload', payload, 'execute_at', execute_at, 'delay', delay,
                'priority', priority, 'idempotency_key', idempotency_key, 'retry', retry,
                -- A fraction of a second stays, and is rejected.
                'timeout', trim_scale(extract(epoch FROM timeout)) || 's', 'owner', owner,
                'target', target
            )),
            statement_timestamp()
        ) AS s
    );
END
$function$;
