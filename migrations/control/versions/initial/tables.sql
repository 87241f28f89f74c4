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
