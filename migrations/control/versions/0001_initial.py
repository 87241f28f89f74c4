"""The control schema as it began: tenants, manifest versions, cursors, executions, audit."""

from alembic.operations import Operations

from tenantcron.store.scripts import run_script

revision = "0001_initial"
down_revision = None

_TABLES = """
CREATE TABLE tenantcron.tenant (
    id varchar(48) NOT NULL,
    schema_name varchar(63) NOT NULL,
    status varchar(16) NOT NULL DEFAULT 'active',
    status_reason text,
    max_schedules integer,
    max_concurrent integer,
    weight smallint NOT NULL DEFAULT 1,
    schedule_revision bigint NOT NULL DEFAULT 0,
    synced_revision bigint NOT NULL DEFAULT 0,
    sync_fault text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT tenant_pkey PRIMARY KEY (id),
    CONSTRAINT tenant_status_check CHECK (status IN ('active', 'suspended', 'deprovisioned')),
    CONSTRAINT tenant_max_schedules_check CHECK (max_schedules >= 0),
    CONSTRAINT tenant_max_concurrent_check CHECK (max_concurrent >= 1),
    CONSTRAINT tenant_weight_check CHECK (weight BETWEEN 1 AND 100),
    CONSTRAINT tenant_schema_name_key UNIQUE (schema_name)
);
CREATE TABLE tenantcron.manifest_version (
    id uuid NOT NULL,
    tenant_id varchar(48) NOT NULL,
    version integer NOT NULL,
    checksum varchar(64) NOT NULL,
    source_checksum varchar(64) NOT NULL,
    document jsonb NOT NULL,
    applied_by varchar(255) NOT NULL,
    applied_at timestamptz NOT NULL,
    source_ref varchar(255),
    CONSTRAINT manifest_version_pkey PRIMARY KEY (id),
    CONSTRAINT manifest_version_tenant_id_version_key UNIQUE (tenant_id, version),
    CONSTRAINT manifest_version_tenant_id_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenantcron.tenant (id)
);
CREATE INDEX manifest_version_source_checksum_idx
    ON tenantcron.manifest_version (source_checksum);
CREATE TABLE tenantcron.audit_record (
    entity_type varchar(32) NOT NULL,
    entity_id varchar(255) NOT NULL,
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    operation varchar(32) NOT NULL,
    changed_by varchar(255) NOT NULL,
    actor_type varchar(32) NOT NULL,
    actor_source varchar(64) NOT NULL,
    authenticated boolean NOT NULL,
    correlation_id uuid,
    before jsonb,
    after jsonb,
    changed_at timestamptz NOT NULL DEFAULT now(),
    tenant_id varchar(48),
    CONSTRAINT audit_record_pkey PRIMARY KEY (entity_type, entity_id, id)
);
CREATE INDEX audit_record_tenant_idx
    ON tenantcron.audit_record (tenant_id, changed_at, id)
    WHERE tenant_id IS NOT NULL;
CREATE INDEX tenant_moved_idx
    ON tenantcron.tenant (id)
    WHERE schedule_revision <> synced_revision;
CREATE TABLE tenantcron.limits (
    only_row boolean NOT NULL DEFAULT true,
    declared integer NOT NULL DEFAULT 20,
    declared_per_tenant integer NOT NULL DEFAULT 5,
    operator integer,
    operator_per_tenant integer,
    updated_at timestamptz,
    CONSTRAINT limits_pkey PRIMARY KEY (only_row),
    CONSTRAINT limits_only_row_check CHECK (only_row),
    CONSTRAINT limits_declared_check CHECK (declared >= 1 AND declared_per_tenant >= 1),
    CONSTRAINT limits_operator_check CHECK (operator >= 0 AND operator_per_tenant >= 0)
);
INSERT INTO tenantcron.limits DEFAULT VALUES;
CREATE TABLE tenantcron.schedule_definition (
    id uuid NOT NULL,
    definition jsonb NOT NULL,
    unused_since timestamptz,
    CONSTRAINT schedule_definition_pkey PRIMARY KEY (id)
);
CREATE TABLE tenantcron.schedule_cursor (
    schedule_id uuid NOT NULL,
    tenant_id varchar(48) NOT NULL,
    schedule_name varchar(128) NOT NULL,
    saga_name varchar(128) NOT NULL,
    provider varchar(32) NOT NULL,
    cron_expr varchar(64) NOT NULL,
    timezone varchar(64) NOT NULL,
    tz_version varchar(16) NOT NULL,
    enabled boolean NOT NULL,
    definition_id uuid NOT NULL,
    effective_from timestamptz NOT NULL,
    next_run_at timestamptz,
    last_run_at timestamptz,
    consecutive_failures integer NOT NULL DEFAULT 0,
    paused_at timestamptz,
    paused_by varchar(255),
    paused_reason text,
    paused_until timestamptz,
    fault text,
    counts_after timestamptz,
    CONSTRAINT schedule_cursor_pkey PRIMARY KEY (schedule_id),
    CONSTRAINT schedule_cursor_tenant_id_schedule_name_key UNIQUE (tenant_id, schedule_name),
    CONSTRAINT schedule_cursor_tenant_id_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenantcron.tenant (id)
);
CREATE INDEX schedule_cursor_due_idx
    ON tenantcron.schedule_cursor (next_run_at)
    WITH (deduplicate_items = off)
    WHERE enabled AND fault IS NULL AND next_run_at IS NOT NULL;
CREATE INDEX schedule_cursor_quiet_idx
    ON tenantcron.schedule_cursor (tenant_id)
    WHERE fault IS NOT NULL OR paused_at IS NOT NULL;
CREATE INDEX schedule_cursor_failing_idx
    ON tenantcron.schedule_cursor (schedule_id)
    WHERE consecutive_failures > 0;
CREATE TABLE tenantcron.execution (
    id uuid NOT NULL,
    tenant_id varchar(48) NOT NULL,
    schedule_id uuid NOT NULL,
    schedule_name varchar(128) NOT NULL,
    saga_name varchar(128) NOT NULL,
    definition_id uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    state varchar(16) NOT NULL,
    reason text,
    overlap varchar(16) NOT NULL,
    priority smallint NOT NULL,
    not_before timestamptz NOT NULL,
    start_deadline timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    attempts_allowed integer NOT NULL,
    lease_until timestamptz,
    lease_token uuid,
    worker_id varchar(128),
    actor_id varchar(255) NOT NULL,
    actor_type varchar(32) NOT NULL,
    actor_source varchar(64) NOT NULL,
    covers_from timestamptz,
    missed_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason text,
    CONSTRAINT execution_state_check CHECK (
        state IN (
            'PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED'
        )
    ),
    CONSTRAINT execution_running_check CHECK (
        state <> 'RUNNING' OR lease_until IS NOT NULL AND lease_token IS NOT NULL
        AND worker_id IS NOT NULL AND started_at IS NOT NULL
    )
) PARTITION BY LIST (state);
CREATE TABLE tenantcron.execution_live PARTITION OF tenantcron.execution (
    CONSTRAINT execution_live_pkey PRIMARY KEY (id)
) FOR VALUES IN ('PENDING', 'RUNNING', 'FAILED')
    WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX execution_waiting_idx
    ON tenantcron.execution_live (tenant_id, priority, not_before)
    WITH (deduplicate_items = off)
    WHERE state IN ('PENDING', 'FAILED');
CREATE INDEX execution_active_idx
    ON tenantcron.execution_live (state, schedule_id)
    WITH (deduplicate_items = off)
    WHERE state IN ('RUNNING', 'FAILED');
CREATE TABLE tenantcron.execution_past PARTITION OF tenantcron.execution (
    CONSTRAINT execution_past_pkey PRIMARY KEY (id, scheduled_for)
) FOR VALUES IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
    PARTITION BY RANGE (scheduled_for);
CREATE INDEX execution_history_idx
    ON tenantcron.execution_past (tenant_id, schedule_name, scheduled_for);
CREATE INDEX execution_newest_idx
    ON tenantcron.execution_past (scheduled_for, id);
CREATE INDEX execution_timeline_idx
    ON tenantcron.execution_past (tenant_id, scheduled_for, id);
CREATE INDEX execution_dead_idx
    ON tenantcron.execution_past (scheduled_for, id) WHERE state = 'DEAD';
CREATE TABLE tenantcron.execution_attempt (
    execution_id uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempt integer NOT NULL,
    worker_id varchar(128) NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    outcome varchar(16) NOT NULL,
    error text,
    http_status integer,
    answer text,
    CONSTRAINT execution_attempt_pkey PRIMARY KEY (execution_id, scheduled_for, attempt),
    CONSTRAINT execution_attempt_outcome_check CHECK (
        outcome IN (
            'SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST', 'INTERRUPTED', 'CANCELLED', 'REFUSED'
        )
    )
) PARTITION BY RANGE (scheduled_for);
CREATE TABLE tenantcron.worker (
    id varchar(128) NOT NULL,
    service varchar(128) NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    running integer NOT NULL DEFAULT 0,
    abandoned integer NOT NULL DEFAULT 0,
    draining boolean NOT NULL DEFAULT false,
    CONSTRAINT worker_pkey PRIMARY KEY (id)
);
"""

# Shared with the tenants' audit tables. It holds against the owner, too: who owns a table needs no
# privilege to change its rows, but still meets its triggers.
_APPEND_ONLY = """
CREATE FUNCTION tenantcron.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%I.%I is append only: %s is refused',
                         TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP),
        HINT = 'What happened is corrected by a new record, never by changing an old one.';
END
$function$;
CREATE TRIGGER audit_record_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON tenantcron.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
ALTER TABLE tenantcron.audit_record ENABLE ALWAYS TRIGGER audit_record_append_only;
"""

# Who acts is what the transaction says; where it says nothing, somebody is at work by hand, and the
# database user is named.
_ACTING = """
CREATE FUNCTION tenantcron.acting(
    OUT changed_by text, OUT actor_type text, OUT actor_source text,
    OUT authenticated boolean, OUT correlation_id uuid, OUT by_hand boolean
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $function$
BEGIN
    by_hand := coalesce(current_setting('tenantcron.actor', true), '') = '';
    correlation_id := nullif(current_setting('tenantcron.correlation_id', true), '')::uuid;
    IF by_hand THEN
        changed_by := session_user;
        actor_type := 'human';
        actor_source := 'sql';
        authenticated := false;
    ELSE
        changed_by := current_setting('tenantcron.actor');
        actor_type := current_setting('tenantcron.actor_type', true);
        actor_source := current_setting('tenantcron.actor_source', true);
        authenticated := coalesce(current_setting('tenantcron.authenticated', true), '') = 'true';
    END IF;
END
$function$;
"""

# One row of the control schema's audit, in the name of whoever acts.
_PUTTING_ON_RECORD = """
CREATE FUNCTION tenantcron.put_on_record(
    entity_type text, entity_id text, operation text, before jsonb, after jsonb
) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog AS $function$
INSERT INTO tenantcron.audit_record (
    entity_type, entity_id, operation, changed_by, actor_type, actor_source, authenticated,
    correlation_id, before, after, tenant_id
)
SELECT
    put_on_record.entity_type, put_on_record.entity_id, put_on_record.operation, who.changed_by,
    who.actor_type, who.actor_source, who.authenticated, who.correlation_id,
    put_on_record.before, put_on_record.after,
    CASE put_on_record.entity_type
        WHEN 'tenant' THEN put_on_record.entity_id
        WHEN 'pause' THEN split_part(put_on_record.entity_id, '/', 1)
        WHEN 'api_token' THEN
            coalesce(put_on_record.after, put_on_record.before) ->> 'tenant_id'
    END
FROM tenantcron.acting() AS who;
$function$;
"""

# Row by row: a trigger that sees all rows of a statement cannot be bound to single columns.
_RECORDING_TENANTS = """
CREATE FUNCTION tenantcron.record_tenant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
BEGIN
    PERFORM tenantcron.put_on_record(
        'tenant',
        coalesce(becomes, was) ->> 'id',
        CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        was,
        becomes
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();
"""

# All rows of a statement are recorded by one statement. Of a trigger's function every session has a
# compiled copy per tenant, and whenever anybody creates a table, every session looks through all
# plans that its copies keep. So this one keeps two, and leaves the work to functions that a session
# has once.
_RECORDING_SCHEDULES = """
CREATE FUNCTION tenantcron.record_schedules() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    recorded bigint;
BEGIN
    EXECUTE tenantcron.recording(TG_TABLE_SCHEMA, TG_OP);
    GET DIAGNOSTICS recorded = ROW_COUNT;
    PERFORM tenantcron.notice_change_by_hand(TG_TABLE_SCHEMA, recorded);
    RETURN NULL;
END
$function$;
CREATE FUNCTION tenantcron.recording(of_schema text, operation text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $function$
-- A row whose id was changed is not the row that it was: one is gone, another is new.
BEGIN
    RETURN format(
        'INSERT INTO %I.audit_record (entity_type, entity_id, operation, changed_by, actor_type,'
        ' actor_source, authenticated, correlation_id, before, after)'
        ' SELECT ''schedule'', changed.name, changed.operation, who.changed_by, who.actor_type,'
        ' who.actor_source, who.authenticated, who.correlation_id, changed.before, changed.after'
        ' FROM (%s) AS changed (name, operation, before, after), tenantcron.acting() AS who',
        of_schema,
        CASE operation
            WHEN 'INSERT' THEN
                'SELECT schedule_name, ''create'', NULL::jsonb, to_jsonb(becomes) FROM becomes'
            WHEN 'DELETE' THEN
                'SELECT schedule_name, ''delete'', to_jsonb(was), NULL::jsonb FROM was'
            ELSE
                'SELECT coalesce(becomes.schedule_name, was.schedule_name),'
                ' CASE WHEN becomes.id IS NULL THEN ''delete'''
                ' WHEN was.id IS NULL THEN ''create'' ELSE ''update'' END,'
                ' CASE WHEN was.id IS NOT NULL THEN to_jsonb(was) END,'
                ' CASE WHEN becomes.id IS NOT NULL THEN to_jsonb(becomes) END'
                ' FROM was FULL JOIN becomes ON was.id = becomes.id'
                ' ORDER BY becomes.id IS NOT NULL, becomes.schedule_name'
        END
    );
END
$function$;
CREATE FUNCTION tenantcron.notice_change_by_hand(of_schema text, changed bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
-- An apply raises the revision itself, once; whoever changes schedules by hand would forget.
DECLARE
    noticed text;
BEGIN
    IF changed > 0 AND (tenantcron.acting()).by_hand THEN
        UPDATE tenantcron.tenant SET schedule_revision = schedule_revision + 1
            WHERE schema_name = of_schema RETURNING id INTO noticed;
        PERFORM pg_notify('tenantcron_schedules', noticed);
    END IF;
END
$function$;
CREATE FUNCTION tenantcron.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%I.%I: TRUNCATE is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME),
        HINT = 'It would leave no record of what was there; use DELETE.';
END
$function$;
"""

# Pauses and limits are an operator's, and on record like everything that people change. A cursor
# moves far too often for a trigger on every update: WHEN keeps it to the pauses.
_OPERATING = """
CREATE FUNCTION tenantcron.record_pause() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM tenantcron.put_on_record(
        'pause',
        NEW.tenant_id || '/' || NEW.schedule_name,
        CASE WHEN NEW.paused_at IS NULL THEN 'resume' ELSE 'pause' END,
        CASE WHEN OLD.paused_at IS NOT NULL THEN jsonb_build_object(
            'at', OLD.paused_at, 'by', OLD.paused_by,
            'reason', OLD.paused_reason, 'until', OLD.paused_until) END,
        CASE WHEN NEW.paused_at IS NOT NULL THEN jsonb_build_object(
            'at', NEW.paused_at, 'by', NEW.paused_by,
            'reason', NEW.paused_reason, 'until', NEW.paused_until) END
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER schedule_cursor_pause_recorded
    AFTER UPDATE ON tenantcron.schedule_cursor
    FOR EACH ROW
    WHEN (
        OLD.paused_at IS DISTINCT FROM NEW.paused_at
        OR OLD.paused_until IS DISTINCT FROM NEW.paused_until
        OR OLD.paused_reason IS DISTINCT FROM NEW.paused_reason
    )
    EXECUTE FUNCTION tenantcron.record_pause();
CREATE FUNCTION tenantcron.record_limits() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM tenantcron.put_on_record(
        'limits', 'cluster', 'update', to_jsonb(OLD), to_jsonb(NEW)
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER limits_recorded
    AFTER UPDATE ON tenantcron.limits
    FOR EACH ROW WHEN (OLD IS DISTINCT FROM NEW)
    EXECUTE FUNCTION tenantcron.record_limits();
"""

# Identities: whoever changes a tenant changes them in the same transaction, by hand as well. A
# tenant that is being created and a service that is being declared wait for each other, else
# neither would see the other and one identity would be missing.
_IDENTITIES = """
CREATE TABLE tenantcron.service (
    name varchar(128) NOT NULL,
    declared_at timestamptz NOT NULL,
    CONSTRAINT service_pkey PRIMARY KEY (name)
);
INSERT INTO tenantcron.service VALUES ('scheduler', now());
CREATE TABLE tenantcron.identity (
    tenant_id varchar(48) NOT NULL,
    id varchar(255) NOT NULL,
    role varchar(32) NOT NULL,
    status varchar(16) NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT identity_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT identity_tenant_id_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenantcron.tenant (id) ON DELETE CASCADE,
    CONSTRAINT identity_role_check CHECK (role IN ('service')),
    CONSTRAINT identity_status_check CHECK (status IN ('active', 'suspended', 'deprovisioned'))
);
CREATE FUNCTION tenantcron.follow_tenant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_advisory_xact_lock_shared(1952672004, 0);
        INSERT INTO tenantcron.identity
            SELECT NEW.id, 'system:scheduler:' || name, 'service', NEW.status, now(), now()
            FROM tenantcron.service;
    ELSE
        UPDATE tenantcron.identity SET status = NEW.status, updated_at = now()
            WHERE tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END
$function$;
CREATE TRIGGER tenant_followed
    AFTER INSERT OR UPDATE OF status ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.follow_tenant();
CREATE FUNCTION tenantcron.follow_service() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(1952672004, 0);
    INSERT INTO tenantcron.identity
        SELECT id, 'system:scheduler:' || NEW.name, 'service', status, now(), now()
        FROM tenantcron.tenant;
    PERFORM tenantcron.put_on_record('service', NEW.name, 'create', NULL, to_jsonb(NEW));
    RETURN NULL;
END
$function$;
CREATE TRIGGER service_followed
    AFTER INSERT ON tenantcron.service
    FOR EACH ROW EXECUTE FUNCTION tenantcron.follow_service();
"""

# Which keys sign is on record like everything that people change; the private key is not.
_SIGNING_KEYS = """
CREATE TABLE tenantcron.signing_key (
    kid varchar(64) NOT NULL,
    algorithm varchar(16) NOT NULL,
    sealed bytea,
    sealed_by varchar(32),
    created_at timestamptz NOT NULL,
    active_from timestamptz NOT NULL,
    retired_at timestamptz,
    CONSTRAINT signing_key_pkey PRIMARY KEY (kid),
    CONSTRAINT signing_key_algorithm_check CHECK (algorithm IN ('EdDSA', 'ES256')),
    CONSTRAINT signing_key_sealed_check CHECK ((sealed IS NULL) = (sealed_by IS NULL)),
    CONSTRAINT signing_key_retired_check CHECK (sealed IS NOT NULL OR retired_at IS NOT NULL)
);
-- The entity, the column of its id, and the column that stays where it is: a record is for people.
CREATE FUNCTION tenantcron.record_secret() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - TG_ARGV[2] END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - TG_ARGV[2] END;
BEGIN
    PERFORM tenantcron.put_on_record(
        TG_ARGV[0],
        coalesce(becomes, was) ->> TG_ARGV[1],
        CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        was,
        becomes
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER signing_key_recorded
    AFTER INSERT OR UPDATE OR DELETE ON tenantcron.signing_key
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('signing_key', 'kid', 'sealed');
"""

# What the API keeps: its tokens, how often each was used of late, and the answers of writes that
# may come twice. Counts are not worth a write to the log: after a crash they begin anew.
_API_TABLES = """
CREATE TABLE tenantcron.api_token (
    id varchar(16) NOT NULL,
    name varchar(128) NOT NULL,
    digest bytea NOT NULL,
    role varchar(16) NOT NULL,
    tenant_id varchar(48),
    created_by varchar(255) NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT api_token_pkey PRIMARY KEY (id),
    CONSTRAINT api_token_role_check CHECK (role IN ('viewer', 'operator', 'deployer', 'admin')),
    CONSTRAINT api_token_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenantcron.tenant (id)
);
CREATE UNIQUE INDEX api_token_name_idx
    ON tenantcron.api_token (name)
    WHERE revoked_at IS NULL;
CREATE UNLOGGED TABLE tenantcron.api_usage (
    caller varchar(320) NOT NULL,
    window_start timestamptz NOT NULL,
    requests integer NOT NULL,
    CONSTRAINT api_usage_pkey PRIMARY KEY (caller)
);
CREATE TABLE tenantcron.idempotency_key (
    caller varchar(320) NOT NULL,
    key varchar(255) NOT NULL,
    request_hash varchar(64) NOT NULL,
    status smallint,
    answer text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_key_pkey PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_key_created_at_idx
    ON tenantcron.idempotency_key (created_at);
CREATE TRIGGER api_token_recorded
    AFTER INSERT OR UPDATE OR DELETE ON tenantcron.api_token
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('api_token', 'id', 'digest');
"""

# What a request may see. The owner of the tables ignores row-level security, so a request reads as
# `tenantcron_api`, and says whose it is: `*`, or the one tenant that its token is bound to. Where
# nothing is said, that role sees nothing. Other roles see what they have rights for, as ever. The
# bodies are parsed here, so that no search path can change what they mean.
_API_SIGHT = """
CREATE FUNCTION tenantcron.sees(tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) IN ('*', tenant);
CREATE FUNCTION tenantcron.sees_schema(tenant_schema text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) = '*'
        OR 'tenant_' || current_setting('tenantcron.tenant', true) = tenant_schema;
ALTER TABLE tenantcron.tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.tenant USING (tenantcron.sees(id));
ALTER TABLE tenantcron.manifest_version ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.manifest_version USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.schedule_cursor ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.schedule_cursor USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.execution ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.execution USING (tenantcron.sees(tenant_id));
ALTER TABLE tenantcron.audit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.audit_record USING (tenantcron.sees(tenant_id));
-- These two have no tenant of their own: they are seen with what names them.
ALTER TABLE tenantcron.execution_attempt ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.execution_attempt USING (
    tenantcron.sees('*') OR EXISTS (
        SELECT FROM tenantcron.execution AS e
        WHERE e.id = execution_attempt.execution_id
            AND e.scheduled_for = execution_attempt.scheduled_for
    )
);
ALTER TABLE tenantcron.schedule_definition ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.schedule_definition USING (
    tenantcron.sees('*') OR EXISTS (
        SELECT FROM tenantcron.schedule_cursor AS c
        WHERE c.tenant_id = current_setting('tenantcron.tenant', true)
            AND c.definition_id = schedule_definition.id
    )
);
-- How full the cluster is decides whether anybody's execution starts, so everybody may know.
CREATE FUNCTION tenantcron.running_now() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    RETURN (SELECT count(*) FROM tenantcron.execution WHERE state = 'RUNNING');
"""

# The role itself belongs to the whole server, and not everybody may make one. Where it cannot be
# made, or not be taken on, the API says so and keeps tenants apart by its code alone.
_API_ROLE = """
CREATE FUNCTION tenantcron.ensure_api_role() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        BEGIN
            CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN false;
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'tenantcron_api', 'MEMBER') THEN
        BEGIN
            GRANT tenantcron_api TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    GRANT USAGE ON SCHEMA tenantcron TO tenantcron_api;
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker TO tenantcron_api;
    -- How webhooks do; where they are and what they are told is nobody's business.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    RETURN true;
END
$function$;
CREATE FUNCTION tenantcron.open_to_api(of_schema text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO tenantcron_api', of_schema);
        EXECUTE format(
            'GRANT SELECT ON %1$I.tenant_schedule, %1$I.audit_record TO tenantcron_api', of_schema
        );
    END IF;
END
$function$;
SELECT tenantcron.ensure_api_role();
"""

_METERING = """
CREATE VIEW tenantcron.metering AS
SELECT
    e.tenant_id,
    date_trunc('month', e.scheduled_for AT TIME ZONE 'UTC')::date AS month,
    count(*) FILTER (WHERE e.state = 'SUCCEEDED') AS succeeded,
    count(*) FILTER (WHERE e.state = 'DEAD') AS dead,
    count(*) FILTER (WHERE e.state = 'CANCELLED') AS cancelled,
    count(*) FILTER (WHERE e.state = 'SKIPPED') AS skipped,
    count(*) FILTER (WHERE e.state = 'MISSED') AS missed,
    count(*) FILTER (WHERE e.state IN ('PENDING', 'RUNNING', 'FAILED')) AS unfinished,
    sum(coalesce(a.attempts, 0) + coalesce(own.attempts, 0))::bigint AS attempts,
    sum(coalesce(a.seconds, 0) + coalesce(own.seconds, 0))::float8 AS run_seconds
FROM tenantcron.execution AS e
LEFT JOIN (
    SELECT
        execution_id, scheduled_for, count(*) AS attempts, max(attempt) AS last,
        sum(extract(epoch FROM finished_at - started_at)) AS seconds
    FROM tenantcron.execution_attempt
    WHERE outcome <> 'REFUSED'
    GROUP BY execution_id, scheduled_for
) AS a ON a.execution_id = e.id AND a.scheduled_for = e.scheduled_for
-- An attempt that succeeded has no row but the execution's own, unless there is an answer to keep.
LEFT JOIN LATERAL (
    SELECT 1 AS attempts, extract(epoch FROM e.finished_at - e.started_at) AS seconds
    WHERE e.state = 'SUCCEEDED' AND e.attempt IS DISTINCT FROM a.last
) AS own ON true
GROUP BY 1, 2;
"""

# Who is told of what happens. The row of a webhook is on record; how much was dropped of its events
# is a number that goes up by itself.
_WEBHOOKS = """
CREATE TABLE tenantcron.webhook (
    name varchar(128) NOT NULL,
    url varchar(2048) NOT NULL,
    event_types text[] NOT NULL,
    tenant_ids text[],
    secret_ref varchar(2200),
    in_batches boolean NOT NULL DEFAULT false,
    created_by varchar(255) NOT NULL,
    created_at timestamptz NOT NULL,
    disabled_at timestamptz,
    disabled_reason text,
    dropped bigint NOT NULL DEFAULT 0,
    dropped_at timestamptz,
    CONSTRAINT webhook_pkey PRIMARY KEY (name)
);
CREATE TABLE tenantcron.outbox (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    event_id uuid NOT NULL DEFAULT gen_random_uuid(),
    tenant_id varchar(48) NOT NULL,
    type varchar(64) NOT NULL,
    subject varchar(255) NOT NULL,
    happened_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (id)
);
CREATE TABLE tenantcron.webhook_lane (
    webhook_name varchar(128) NOT NULL,
    tenant_id varchar(48) NOT NULL,
    last_placed bigint NOT NULL,
    last_delivered bigint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL,
    lease_token uuid,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    CONSTRAINT webhook_lane_pkey PRIMARY KEY (webhook_name, tenant_id),
    CONSTRAINT webhook_lane_webhook_name_fkey FOREIGN KEY (webhook_name)
        REFERENCES tenantcron.webhook (name) ON DELETE CASCADE
);
CREATE INDEX webhook_lane_due_idx
    ON tenantcron.webhook_lane (webhook_name, due_at)
    WHERE last_placed > last_delivered;
CREATE TABLE tenantcron.webhook_event (
    webhook_name varchar(128) NOT NULL,
    tenant_id varchar(48) NOT NULL,
    place bigint NOT NULL,
    event_id uuid NOT NULL,
    type varchar(64) NOT NULL,
    subject varchar(255) NOT NULL,
    happened_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    placed_at timestamptz NOT NULL,
    CONSTRAINT webhook_event_pkey PRIMARY KEY (webhook_name, tenant_id, place),
    CONSTRAINT webhook_event_webhook_name_fkey FOREIGN KEY (webhook_name)
        REFERENCES tenantcron.webhook (name) ON DELETE CASCADE
);
CREATE INDEX webhook_event_age_idx
    ON tenantcron.webhook_event (webhook_name, placed_at);
-- They may be of several tenants, so only who sees all of those sees them.
ALTER TABLE tenantcron.webhook ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.webhook USING (tenantcron.sees('*'));
ALTER TABLE tenantcron.webhook_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.webhook_event USING (tenantcron.sees('*'));
ALTER TABLE tenantcron.webhook_lane ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.webhook_lane USING (tenantcron.sees('*'));
CREATE TRIGGER webhook_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF url, event_types, tenant_ids, secret_ref, in_batches, disabled_at
    ON tenantcron.webhook
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('webhook', 'name', 'url');
"""

# Events, in the transaction of what they tell of, and only those that somebody wants to hear. They
# are written with the rights of the owner: whoever may end an execution or change a tenant need not
# be allowed to write events of their own. The bodies of single rows are triggers, too, because a
# function that anybody could call would let anybody tell anything.
_TELLING = """
CREATE FUNCTION tenantcron.is_heard(event_type text, of_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (
        SELECT FROM tenantcron.webhook AS w
        WHERE
            w.disabled_at IS NULL AND event_type = ANY (w.event_types)
            AND (w.tenant_ids IS NULL OR of_tenant = ANY (w.tenant_ids))
    );
CREATE FUNCTION tenantcron.tell_executions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
BEGIN
    INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
    SELECT
        e.tenant_id, 'dev.tenantcron.execution.' || lower(e.state), 'executions/' || e.id,
        coalesce(e.finished_at, now()),
        jsonb_build_object(
            'id', e.id, 'tenant', e.tenant_id, 'schedule', e.schedule_name, 'saga', e.saga_name,
            'scheduled_for', e.scheduled_for, 'state', e.state, 'reason', e.reason,
            'attempt', e.attempt, 'started_at', e.started_at, 'finished_at', e.finished_at,
            'covers_from', e.covers_from, 'missed_count', e.missed_count,
            'actor', jsonb_build_object(
                'id', e.actor_id, 'type', e.actor_type, 'source', e.actor_source
            ),
            'correlation_id', e.id
        )
    FROM becomes AS e
    WHERE
        e.state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
        -- Not by the function: it would be called for each row, and this is joined once.
        AND EXISTS (
            SELECT FROM tenantcron.webhook AS w
            WHERE
                w.disabled_at IS NULL
                AND 'dev.tenantcron.execution.' || lower(e.state) = ANY (w.event_types)
                AND (w.tenant_ids IS NULL OR e.tenant_id = ANY (w.tenant_ids))
        )
    ORDER BY e.finished_at, e.scheduled_for, e.id;
    RETURN NULL;
END
$function$;
-- Nearly everywhere nobody listens to executions, and then there is no trigger at all: even one
-- that returns at once makes the database keep a copy of every row, thousands a second. To take it
-- away takes a lock that whoever reads a long history would keep everybody waiting for; then it
-- stays, finds that nobody listens, and goes the next time.
CREATE FUNCTION tenantcron.follow_webhooks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    is_there boolean := EXISTS (
        SELECT FROM pg_trigger
        WHERE tgrelid = 'tenantcron.execution'::regclass AND tgname = 'execution_told'
    );
    is_wanted boolean := EXISTS (
        SELECT FROM tenantcron.webhook AS w, unnest(w.event_types) AS event_type
        WHERE w.disabled_at IS NULL AND event_type LIKE 'dev.tenantcron.execution.%'
    );
    patience text := current_setting('lock_timeout');
BEGIN
    IF is_wanted AND NOT is_there THEN
        CREATE TRIGGER execution_made_told
            AFTER INSERT ON tenantcron.execution
            REFERENCING NEW TABLE AS becomes
            FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.tell_executions();
        CREATE TRIGGER execution_told
            AFTER UPDATE ON tenantcron.execution
            REFERENCING NEW TABLE AS becomes
            FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.tell_executions();
    ELSIF is_there AND NOT is_wanted THEN
        PERFORM set_config('lock_timeout', '500ms', true);
        DROP TRIGGER execution_made_told ON tenantcron.execution;
        DROP TRIGGER execution_told ON tenantcron.execution;
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN NULL;
END
$function$;
CREATE TRIGGER webhook_followed
    AFTER INSERT OR DELETE OR UPDATE OF event_types, disabled_at ON tenantcron.webhook
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.follow_webhooks();
CREATE FUNCTION tenantcron.tell_pause() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    told text := 'dev.tenantcron.schedule.'
        || CASE WHEN NEW.paused_at IS NULL THEN 'resumed' ELSE 'paused' END;
BEGIN
    IF tenantcron.is_heard(told, NEW.tenant_id) THEN
        INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
        SELECT
            NEW.tenant_id, told, 'schedules/' || NEW.schedule_name, now(),
            jsonb_build_object(
                'tenant', NEW.tenant_id, 'schedule', NEW.schedule_name,
                'paused', CASE WHEN NEW.paused_at IS NOT NULL THEN jsonb_build_object(
                    'at', NEW.paused_at, 'by', NEW.paused_by,
                    'reason', NEW.paused_reason, 'until', NEW.paused_until) END,
                'actor', jsonb_build_object(
                    'id', who.changed_by, 'type', who.actor_type, 'source', who.actor_source),
                'correlation_id', who.correlation_id
            )
        FROM tenantcron.acting() AS who;
    END IF;
    RETURN NULL;
END
$function$;
CREATE TRIGGER schedule_cursor_pause_told
    AFTER UPDATE ON tenantcron.schedule_cursor
    FOR EACH ROW
    WHEN (
        OLD.paused_at IS DISTINCT FROM NEW.paused_at
        OR OLD.paused_until IS DISTINCT FROM NEW.paused_until
        OR OLD.paused_reason IS DISTINCT FROM NEW.paused_reason
    )
    EXECUTE FUNCTION tenantcron.tell_pause();
CREATE FUNCTION tenantcron.tell_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
DECLARE
    -- How far schedulers have followed is their own affair.
    own text[] := ARRAY['schedule_revision', 'synced_revision', 'sync_fault', 'updated_at'];
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - own END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - own END;
    tenant text := coalesce(becomes, was) ->> 'id';
BEGIN
    IF was IS DISTINCT FROM becomes
        AND tenantcron.is_heard('dev.tenantcron.tenant.changed', tenant)
    THEN
        INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
        SELECT
            tenant, 'dev.tenantcron.tenant.changed', 'tenants/' || tenant, now(),
            jsonb_build_object(
                'tenant', tenant,
                'operation', CASE TG_OP
                    WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
                'before', was, 'after', becomes,
                'actor', jsonb_build_object(
                    'id', who.changed_by, 'type', who.actor_type, 'source', who.actor_source),
                'correlation_id', who.correlation_id
            )
        FROM tenantcron.acting() AS who;
    END IF;
    RETURN NULL;
END
$function$;
CREATE TRIGGER tenant_told
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.tell_tenant();
"""

_UNDO = """
DROP VIEW tenantcron.metering;
DROP FUNCTION tenantcron.running_now();
DROP TABLE tenantcron.idempotency_key, tenantcron.api_usage, tenantcron.api_token;
DROP TABLE tenantcron.signing_key, tenantcron.identity, tenantcron.service;
DROP TABLE tenantcron.worker, tenantcron.execution_attempt, tenantcron.execution,
    tenantcron.schedule_cursor, tenantcron.schedule_definition, tenantcron.limits,
    tenantcron.audit_record, tenantcron.manifest_version, tenantcron.tenant;
DROP TABLE tenantcron.webhook_event, tenantcron.webhook_lane, tenantcron.outbox;
DROP FUNCTION tenantcron.tell_executions(), tenantcron.tell_pause(), tenantcron.tell_tenant(),
    tenantcron.is_heard(text, text);
DROP TABLE tenantcron.webhook;
DROP FUNCTION tenantcron.follow_webhooks();
DROP FUNCTION tenantcron.refuse_change(), tenantcron.refuse_truncate(), tenantcron.record_tenant(),
    tenantcron.record_pause(), tenantcron.record_limits(), tenantcron.record_secret(),
    tenantcron.follow_tenant(), tenantcron.follow_service(),
    tenantcron.put_on_record(text, text, text, jsonb, jsonb),
    tenantcron.record_schedules(), tenantcron.recording(text, text),
    tenantcron.notice_change_by_hand(text, bigint), tenantcron.acting(),
    tenantcron.sees(text), tenantcron.sees_schema(text),
    tenantcron.ensure_api_role(), tenantcron.open_to_api(text);
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the tables, and what writes the audit and keeps it append only."""
    recording = _ACTING + _PUTTING_ON_RECORD + _RECORDING_TENANTS + _RECORDING_SCHEDULES
    run_script(op.get_bind(), _TABLES + _APPEND_ONLY + recording + _OPERATING)
    run_script(op.get_bind(), _IDENTITIES + _SIGNING_KEYS)
    run_script(op.get_bind(), _API_TABLES + _API_SIGHT)
    run_script(op.get_bind(), _METERING)
    run_script(op.get_bind(), _WEBHOOKS + _TELLING)
    run_script(op.get_bind(), _API_ROLE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop everything; refused while tenants' audit tables still depend on it."""
    run_script(op.get_bind(), _UNDO)
