"""The declarations of all tables.

Control tables are in the schema `tenantcron`, once per database. Tenant tables are declared on the
placeholder schema `tenant`; a caller selects the tenant's schema with `schema_translate_map` (see
`engine.of_tenant`). A change here needs a migration: a test compares these declarations with the
result of all migrations.

The application sets `updated_at` in the statement that changes the row, so that a plan can
distinguish changes by apply from manual ones.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    event,
    false,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

CONTROL_SCHEMA = "tenantcron"
TENANT_SCHEMA = "tenant"

_NAMES = {
    "pk": "%(table_name)s_pkey",
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    "ck": "%(table_name)s_%(constraint_name)s_check",
    "ix": "%(table_name)s_%(column_0_N_name)s_idx",
}
control = MetaData(schema=CONTROL_SCHEMA, naming_convention=_NAMES)
per_tenant = MetaData(schema=TENANT_SCHEMA, naming_convention=_NAMES)


def _time(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _audit_columns() -> list[Column[object]]:
    """Return the columns of both audit tables: the entity, the operation and the actor."""
    return [
        Column("entity_type", String(32), primary_key=True),
        Column("entity_id", String(255), primary_key=True),
        # Last in the key, because queries are by entity. A second index would have to be created in
        # every tenant schema.
        Column("id", BigInteger, Identity(always=True), primary_key=True),
        Column("operation", String(32), nullable=False),
        Column("changed_by", String(255), nullable=False),
        Column("actor_type", String(32), nullable=False),
        Column("actor_source", String(64), nullable=False),
        Column("authenticated", Boolean, nullable=False),
        Column("correlation_id", Uuid, nullable=True),
        Column("before", JSONB, nullable=True),
        Column("after", JSONB, nullable=True),
        Column("changed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    ]


tenant = Table(
    "tenant",
    control,
    Column("id", String(48), primary_key=True),
    Column("schema_name", String(63), nullable=False, unique=True),
    Column("status", String(16), nullable=False, server_default="active"),
    Column("status_reason", Text, nullable=True),
    # None: the limit of the platform applies.
    Column("max_schedules", Integer, nullable=True),
    Column("max_concurrent", Integer, nullable=True),
    Column("weight", SmallInteger, nullable=False, server_default=text("1")),
    # Incremented in the transaction of every change of the tenant's schedules.
    Column("schedule_revision", BigInteger, nullable=False, server_default=text("0")),
    # Written by the provider: the revision that the cursors reflect, and why they cannot.
    Column("synced_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("sync_fault", Text, nullable=True),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'")),
    # The tenant source manages its status, and its weight and labels if it has them.
    Column("sourced", Boolean, nullable=False, server_default=false()),
    # Since when the source does not contain it.
    _time("missing_since", nullable=True),
    _time("created_at"),
    _time("updated_at"),
    # Whether the schema existed before the tenant: it belongs to the platform and is never dropped.
    Column("schema_adopted", Boolean, nullable=False, server_default=text("false")),
    # An operator's quotas; they take precedence over those of `limits`.
    Column("quotas", JSONB, nullable=False, server_default=text("'{}'")),
    CheckConstraint("status IN ('active', 'suspended', 'deprovisioned')", name="status"),
    CheckConstraint("max_schedules >= 0", name="max_schedules"),
    CheckConstraint("max_concurrent >= 1", name="max_concurrent"),
    CheckConstraint("weight BETWEEN 1 AND 100", name="weight"),
    CheckConstraint("jsonb_typeof(quotas) = 'object'", name="quotas"),
)
# Finds changed tenants without reading all tenants.
Index(
    "tenant_moved_idx", tenant.c.id, postgresql_where=text("schedule_revision <> synced_revision")
)
Index("tenant_missing_idx", tenant.c.id, postgresql_where=text("missing_since IS NOT NULL"))

# A copy of the labels for lists, maintained by a trigger. The API could not use an index on
# `tenant.labels`, because row-level security allows only leakproof operators in an index scan.
tenant_label = Table(
    "tenant_label",
    control,
    Column("tenant_id", String(48), ForeignKey(tenant.c.id, ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Index(None, "key", "value", "tenant_id"),
)

# One row, if the platform's registry is the source of tenants.
tenant_source = Table(
    "tenant_source",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    # The display name of the source.
    Column("name", Text, nullable=False),
    # No execution starts if the last read is older.
    Column("max_age", Interval, nullable=False),
    # What the source manages in addition to the status.
    Column("columns", ARRAY(Text), nullable=False, server_default="{}"),
    # The registered tenants match the source as of this time.
    _time("refreshed_at"),
    # The refresh that has the turn: its token, start, last sign of life and end.
    Column("token", Uuid, nullable=True),
    _time("started_at", nullable=True),
    _time("renewed_at", nullable=True),
    _time("finished_at", nullable=True),
    # Missing tenants that were left unchanged, because there were too many of them.
    Column("held", Integer, nullable=False, server_default=text("0")),
    # How many problems the last refresh found; the first ones are stored.
    Column("problems", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("only_row", name="only_row"),
)
tenant_source_problem = Table(
    "tenant_source_problem",
    control,
    Column("place", Integer, primary_key=True, autoincrement=False),
    # As in the source; `*` for a problem of the source itself.
    Column("tenant_id", Text, nullable=False),
    Column("problem", Text, nullable=False),
)

manifest_version = Table(
    "manifest_version",
    control,
    Column("id", Uuid, primary_key=True),
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=False),
    Column("version", Integer, nullable=False),
    # Of the normalised document: equivalent manifests have the same version.
    Column("checksum", String(64), nullable=False),
    # Of the bytes of the manifest and the policy that it was checked with.
    Column("source_checksum", String(64), nullable=False),
    Column("document", JSONB, nullable=False),
    Column("applied_by", String(255), nullable=False),
    _time("applied_at"),
    Column("source_ref", String(255), nullable=True),
    UniqueConstraint("tenant_id", "version"),
)
Index(None, manifest_version.c.source_checksum)

# The audit records of control tables. They outlive the schema of a tenant.
control_audit_record = Table(
    "audit_record",
    control,
    *_audit_columns(),
    # None for records about the cluster.
    Column("tenant_id", String(48), nullable=True),
)
Index(
    "audit_record_tenant_idx",
    control_audit_record.c.tenant_id,
    control_audit_record.c.changed_at,
    control_audit_record.c.id,
    postgresql_where=text("tenant_id IS NOT NULL"),
)
# Records are inserted in the order of time, so a BRIN index finds the old ones.
Index("audit_record_changed_idx", control_audit_record.c.changed_at, postgresql_using="brin")

Index("audit_record_newest_idx", control_audit_record.c.changed_at, control_audit_record.c.id)

# When the schedules of a tenant changed. The records of the changes are in the tenant's schema.
schedule_change = Table(
    "schedule_change",
    control,
    Column("changed_at", DateTime(timezone=True), primary_key=True),
    Column("tenant_id", String(48), primary_key=True),
    Column("changed_by", String(255), primary_key=True),
)

# How many executions may run at once in the cluster. One row; an operator's values take precedence
# over those of the scheduler's settings.
limits = Table(
    "limits",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    Column("declared", Integer, nullable=False, server_default=text("20")),
    Column("declared_per_tenant", Integer, nullable=False, server_default=text("5")),
    Column("operator", Integer, nullable=True),
    Column("operator_per_tenant", Integer, nullable=True),
    _time("updated_at", nullable=True),
    # The policy's quotas for each tenant, by name; without one, the built-in value applies.
    Column("quotas", JSONB, nullable=False, server_default=text("'{}'")),
    # The same for single tenants: objects by tenant id.
    Column("tenant_quotas", JSONB, nullable=False, server_default=text("'{}'")),
    Column("tenant_weights", JSONB, nullable=False, server_default=text("'{}'")),
    # Kinds of targets that the policy allows, besides the built-in ones.
    Column("target_kinds", ARRAY(String(128)), nullable=False, server_default=text("'{}'")),
    CheckConstraint("jsonb_typeof(quotas) = 'object'", name="quotas"),
    CheckConstraint("jsonb_typeof(tenant_quotas) = 'object'", name="tenant_quotas"),
    CheckConstraint("jsonb_typeof(tenant_weights) = 'object'", name="tenant_weights"),
    CheckConstraint("only_row", name="only_row"),
    CheckConstraint("declared >= 1 AND declared_per_tenant >= 1", name="declared"),
    # With 0, an operator stops all starts.
    CheckConstraint("operator >= 0 AND operator_per_tenant >= 0", name="operator"),
)

# How tenants and priorities share slots while these are scarce; see `sharing`.
share_period = Table(
    "share_period",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    # When slots became scarce, and when executions were last left pending for lack of them.
    _time("since"),
    _time("waited_at"),
    Column("virtual_time", Double, nullable=False),
    CheckConstraint("only_row", name="only_row"),
)
# Written by claims only.
tenant_share = Table(
    "tenant_share",
    control,
    Column("tenant_id", String(48), primary_key=True),
    # How far each priority is, from critical to low.
    Column("passes", ARRAY(SmallInteger), nullable=False),
    # The period that the rest is about.
    _time("since"),
    Column("virtual_time", Double, nullable=False),
    # How many seconds of `tenant_usage` the virtual time includes.
    Column("counted", Double, nullable=False),
)
# Written by claims only: how many executions a tenant has started in its last minute with a start.
tenant_start = Table(
    "tenant_start",
    control,
    Column("tenant_id", String(48), primary_key=True),
    _time("minute"),
    Column("number", Integer, nullable=False),
)
# Written by submissions: upper bounds of what is pending for a tenant, in parts; see `submit`.
tenant_pending = Table(
    "tenant_pending",
    control,
    Column("tenant_id", String(48), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("tasks", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
# Written when attempts end: the processing time of a tenant in a period.
tenant_usage = Table(
    "tenant_usage",
    control,
    Column("tenant_id", String(48), primary_key=True),
    _time("since"),
    Column("seconds", Double, nullable=False),
)

# The names and passwords of handler roles are derived from this; see `handler_roles`.
handler_login = Table(
    "handler_login",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    Column("installation", Uuid, nullable=False, server_default=func.gen_random_uuid()),
    Column(
        "secret",
        Text,
        nullable=False,
        server_default=text("gen_random_uuid()::text || gen_random_uuid()::text"),
    ),
    CheckConstraint("only_row", name="only_row"),
)

# Definitions of schedules without the timetable. Content-addressed: cursors and executions refer to
# a definition by id, so that an attempt months later still uses that of its occurrence.
schedule_definition = Table(
    "schedule_definition",
    control,
    Column("id", Uuid, primary_key=True),
    Column("definition", JSONB, nullable=False),
    # Since when no cursor refers to it; kept for as long as executions may refer to it.
    _time("unused_since", nullable=True),
)

schedule_cursor = Table(
    "schedule_cursor",
    control,
    Column("schedule_id", Uuid, primary_key=True),
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=False),
    Column("schedule_name", String(128), nullable=False),
    Column("saga_name", String(128), nullable=False),
    # The provider that manages it; no other provider changes it.
    Column("provider", String(32), nullable=False),
    Column("cron_expr", String(64), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("tz_version", String(16), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("definition_id", Uuid, nullable=False),
    # When the timetable took effect; earlier occurrences are never fired.
    _time("effective_from"),
    # None: there is no further occurrence.
    _time("next_run_at", nullable=True),
    _time("last_run_at", nullable=True),
    Column("consecutive_failures", Integer, nullable=False, server_default=text("0")),
    _time("paused_at", nullable=True),
    Column("paused_by", String(255), nullable=True),
    Column("paused_reason", Text, nullable=True),
    _time("paused_until", nullable=True),
    # Why it cannot be evaluated; such a cursor is quarantined until the schedule changes.
    Column("fault", Text, nullable=True),
    # The start of the timetable, if it is later than `effective_from`: the previous timetable
    # applies until a scheduler picks up the change.
    _time("counts_after", nullable=True),
    UniqueConstraint("tenant_id", "schedule_name"),
)
# Paused cursors are due, too: each of their occurrences is recorded as skipped.
Index(
    "schedule_cursor_due_idx",
    schedule_cursor.c.next_run_at,
    postgresql_with={"deduplicate_items": "off"},
    postgresql_where=text("enabled AND fault IS NULL AND next_run_at IS NOT NULL"),
)
# Finds the few cursors that do not fire without reading all.
Index(
    "schedule_cursor_quiet_idx",
    schedule_cursor.c.tenant_id,
    postgresql_where=text("fault IS NOT NULL OR paused_at IS NOT NULL"),
)
# A success resets the count of failures, so every success checks whether there is one.
Index(
    "schedule_cursor_failing_idx",
    schedule_cursor.c.schedule_id,
    postgresql_where=text("consecutive_failures > 0"),
)

execution = Table(
    "execution",
    control,
    Column("id", Uuid, nullable=False),
    Column("tenant_id", String(48), nullable=False),
    Column("schedule_id", Uuid, nullable=False),
    Column("schedule_name", String(128), nullable=False),
    Column("saga_name", String(128), nullable=False),
    Column("definition_id", Uuid, nullable=False),
    # The nominal time.
    _time("scheduled_for"),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    Column("overlap", String(16), nullable=False),
    # From 0 (critical) to 3 (low).
    Column("priority", SmallInteger, nullable=False),
    _time("not_before"),
    # None: it waits for a slot without a limit.
    _time("start_deadline", nullable=True),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("attempts_allowed", Integer, nullable=False),
    _time("lease_until", nullable=True),
    Column("lease_token", Uuid, nullable=True),
    Column("worker_id", String(128), nullable=True),
    Column("actor_id", String(255), nullable=False),
    Column("actor_type", String(32), nullable=False),
    Column("actor_source", String(64), nullable=False),
    # Earlier occurrences that this row covers in addition to its own: the first, and how many.
    _time("covers_from", nullable=True),
    Column("missed_count", Integer, nullable=False, server_default=text("0")),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("finished_at", nullable=True),
    _time("cancel_requested_at", nullable=True),
    Column("cancel_reason", Text, nullable=True),
    # How many workers were lost with it, and how many of its last attempts in a row were lost.
    Column("losses", Integer, nullable=False, server_default=text("0")),
    Column("suspicion", Integer, nullable=False, server_default=text("0")),
    # What a replica needs to run it: `saga:<name>`, or the kind of its target. None: fired by a
    # replica of the previous release and not decided yet.
    Column("requires", String(136), nullable=True),
    # See `schedules.execution_reasons`; None: by the previous release. `reason` has the detail.
    Column("reason_code", String(32), nullable=True),
    Column("cancel_reason_code", String(32), nullable=True),
    # The attempt that was last handed over to a remote worker; see `store.steps.callbacks`.
    Column("handed_over_attempt", Integer, nullable=True),
    Column("handed_over_lease", String(32), nullable=True),
    _time("handed_over_at", nullable=True),
    Column("heartbeat_every", Interval, nullable=True),
    _time("heartbeat_at", nullable=True),
    _time("attempt_deadline", nullable=True),
    # The attempt whose worker reported the end itself.
    Column("reported_attempt", Integer, nullable=True),
    # What its worker reported last: from 0 to 100, and a text.
    Column("progress", SmallInteger, nullable=True),
    Column("progress_text", String(200), nullable=True),
    # Which delivery of its message is being worked on; None: its worker has not named one.
    Column("delivery", String(64), nullable=True),
    # Until then, a replica stops the work of an ended execution; see `store.rows.left_work`.
    _time("stopping_until", nullable=True),
    CheckConstraint(
        "state <> 'RUNNING' OR lease_until IS NOT NULL AND lease_token IS NOT NULL "
        "AND worker_id IS NOT NULL AND started_at IS NOT NULL",
        name="running",
    ),
    postgresql_partition_by="LIST (state)",
)
# Finished executions move to another partition, which is partitioned by month. So the live one is
# small, whatever the size of the history: a statement that names the live states reads no others.
# SQLAlchemy does not support partitions. Their lists of values are the check of the states. The
# previous release writes FAILED for RETRYING. Lists over all tenants show the newest executions and
# must not read the entire history. The live partition has no such index, because it is small, and
# each index would slow down firing. Dead executions are few, and users look for them first.
_PARTITIONS = """
CREATE TABLE tenantcron.execution_live PARTITION OF tenantcron.execution (
    CONSTRAINT execution_live_pkey PRIMARY KEY (id)
) FOR VALUES IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')
    WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX execution_runnable_idx
    ON tenantcron.execution_live (requires, tenant_id, priority, not_before)
    WITH (deduplicate_items = off)
    WHERE state <> 'RUNNING';
CREATE INDEX execution_active_idx
    ON tenantcron.execution_live (state, schedule_id)
    WITH (deduplicate_items = off)
    WHERE state IN ('RUNNING', 'RETRYING', 'FAILED');
CREATE INDEX execution_pending_task_idx
    ON tenantcron.execution_live (tenant_id)
    WHERE schedule_id = id AND state <> 'RUNNING';
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
CREATE INDEX execution_tenant_dead_idx
    ON tenantcron.execution_past (tenant_id, scheduled_for, id) WHERE state = 'DEAD';
"""
event.listen(
    execution,
    "after_create",
    DDL(_PARTITIONS),  # type: ignore[no-untyped-call] # SQLAlchemy has no types for it
)

execution_attempt = Table(
    "execution_attempt",
    control,
    Column("execution_id", Uuid, primary_key=True),
    Column("scheduled_for", DateTime(timezone=True), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("worker_id", String(128), nullable=False),
    _time("started_at"),
    _time("finished_at"),
    Column("outcome", String(16), nullable=False),
    Column("error", Text, nullable=True),
    # HTTP targets: the status of the response, and the start of its body.
    Column("http_status", Integer, nullable=True),
    Column("answer", Text, nullable=True),
    # Handlers: the last lines of the log, and the result.
    Column("log", Text, nullable=True),
    Column("result", JSONB, nullable=True),
    CheckConstraint(
        "outcome IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST', 'INTERRUPTED', 'CANCELLED', "
        "'REFUSED')",
        name="outcome",
    ),
    postgresql_partition_by="RANGE (scheduled_for)",
)

# Log lines of running attempts; see `store.rows.live_logs`. A row is deleted when its attempt ends.
live_log = Table(
    "live_log",
    control,
    Column("execution_id", Uuid, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # How many characters the attempt had logged, including these lines.
    Column("end_position", BigInteger, primary_key=True),
    Column("tenant_id", String(48), nullable=False),
    Column("lines", Text, nullable=False),
)

# One-time work that a client submitted for a moment. `store.steps.submit` has the protocol. Its
# execution has its id as id, schedule_id and definition_id, so a task is found by that.
# Columns of a fixed size come first: then a row has no gaps.
task = Table(
    "task",
    control,
    # A UUID of version 7: ids sort by the time of submission.
    Column("id", Uuid, primary_key=True),
    # Never before the submission.
    _time("execute_at"),
    _time("submitted_at"),
    # When its execution was inserted; None: it waits.
    _time("fired_at", nullable=True),
    # The size of the payload as `jsonb` text, for the quota of stored bytes.
    Column("payload_bytes", Integer, nullable=False, server_default=text("0")),
    # From 0 (critical) to 3 (low).
    Column("priority", SmallInteger, nullable=False),
    Column("authenticated", Boolean, nullable=False),
    Column("tenant_id", String(48), nullable=False),
    Column("saga_name", String(128), nullable=False),
    Column("requires", String(136), nullable=False),
    Column("actor_id", String(255), nullable=False),
    Column("actor_type", String(32), nullable=False),
    Column("actor_source", String(64), nullable=False),
    # Settings other than the defaults, as in `schedule_definition`; None: there are none.
    Column("definition", JSONB, nullable=True),
    Column("payload", JSONB, nullable=False),
    Column("idempotency_key", String(255), nullable=True),
    # The digest of the request, which must be the same for the same key.
    Column("request_hash", LargeBinary, nullable=True),
    CheckConstraint("priority BETWEEN 0 AND 3", name="priority"),
    CheckConstraint("(idempotency_key IS NULL) = (request_hash IS NULL)", name="key"),
    postgresql_with={
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_vacuum_insert_scale_factor": "0.05",
    },
)
Index(
    "task_key_idx",
    task.c.tenant_id,
    task.c.idempotency_key,
    unique=True,
    postgresql_where=text("idempotency_key IS NOT NULL"),
)
Index(
    "task_due_idx",
    task.c.execute_at,
    postgresql_with={"deduplicate_items": "off"},
    postgresql_where=text("fired_at IS NULL"),
)
# Counts the waiting tasks of a tenant, up to its quota, and the bytes of their payloads.
Index(
    "task_waiting_idx",
    task.c.tenant_id,
    task.c.execute_at,
    postgresql_include=["payload_bytes"],
    postgresql_where=text("fired_at IS NULL"),
)
Index("task_newest_idx", task.c.tenant_id, task.c.id)
# Finds the old ones, to delete them.
Index("task_fired_idx", task.c.fired_at, postgresql_where=text("fired_at IS NOT NULL"))

# One row for each step that only one process may run at a time; see `locks`.
lock = Table(
    "lock",
    control,
    Column("name", String(32), primary_key=True),
    # The advisory lock of the same step in the previous release.
    Column("advisory_key", Integer, nullable=False),
)

# The replicas of the scheduler, as they report themselves.
worker = Table(
    "worker",
    control,
    Column("id", String(128), primary_key=True),
    Column("service", String(128), nullable=False),
    _time("started_at"),
    _time("seen_at"),
    Column("running", Integer, nullable=False, server_default=text("0")),
    # Handlers in threads that are still running after their timeout: a thread cannot be stopped.
    Column("abandoned", Integer, nullable=False, server_default=text("0")),
    Column("draining", Boolean, nullable=False, server_default=false()),
    # Patterns of what it can run; None: a replica of the previous release, which runs anything.
    Column("capabilities", ARRAY(Text), nullable=True),
    # Executions that it could not start for lack of slots, and when. Other replicas keep their
    # places in the queue.
    Column("wants", ARRAY(Text), nullable=True),
    _time("wants_at", nullable=True),
)

# When a replica last declared a capability by name. Catch-alls do not claim it for a while.
capability = Table(
    "capability",
    control,
    Column("name", String(136), primary_key=True),
    _time("named_at"),
)

# Hosts with a rate limit, for each kind of target: until when their calls are spent, the last
# tenant whose turn is over, and how many calls the next one has made in its turn.
rate_limit = Table(
    "rate_limit",
    control,
    Column("host", String(120), primary_key=True),
    Column("kind", String(128), primary_key=True),
    _time("spent_until"),
    Column("last_tenant", String(48), nullable=False),
    Column("turn_calls", Integer, nullable=False),
)

# The timelines of the database, as detected by replicas.
failover = Table(
    "failover",
    control,
    Column("timeline", Integer, primary_key=True, autoincrement=False),
    _time("noticed_at"),
    Column("worker_id", String(128), nullable=False),
)

# Attempts whose start or result was lost with an old primary.
failover_loss = Table(
    "failover_loss",
    control,
    Column("execution_id", Uuid, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("timeline", Integer, primary_key=True, autoincrement=False),
    _time("scheduled_for"),
    Column("tenant_id", String(48), nullable=False),
    Column("schedule_name", String(128), nullable=False),
    Column("lost", String(8), nullable=False),
    Column("worker_id", String(128), nullable=False),
    _time("noticed_at"),
    CheckConstraint("lost IN ('claim', 'result')", name="lost"),
)
Index("failover_loss_noticed_idx", failover_loss.c.noticed_at)

# The service names of schedulers; each has an identity in every tenant.
service = Table(
    "service",
    control,
    Column("name", String(128), primary_key=True),
    _time("declared_at"),
)

# The identities that call other services for a tenant: `system:scheduler:{service}`. Triggers on
# `tenant` and `service` write them, so they follow every change of the tenant.
identity = Table(
    "identity",
    control,
    Column("tenant_id", String(48), ForeignKey(tenant.c.id, ondelete="CASCADE"), primary_key=True),
    Column("id", String(255), primary_key=True),
    Column("role", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    _time("created_at"),
    _time("updated_at"),
    CheckConstraint("role IN ('service')", name="role"),
    CheckConstraint("status IN ('active', 'suspended', 'deprovisioned')", name="status"),
)

# Keys that sign tokens. Their states follow from the times (see scheduler/tokens/signing_keys.py).
signing_key = Table(
    "signing_key",
    control,
    Column("kid", String(64), primary_key=True),
    Column("algorithm", String(16), nullable=False),
    # The encrypted private key; None after it was retired, when no copy exists.
    Column("sealed", LargeBinary, nullable=True),
    Column("sealed_by", String(32), nullable=True),
    _time("created_at"),
    # It is published before it signs.
    _time("active_from"),
    _time("retired_at", nullable=True),
    CheckConstraint("algorithm IN ('EdDSA', 'ES256')", name="algorithm"),
    CheckConstraint("(sealed IS NULL) = (sealed_by IS NULL)", name="sealed"),
    CheckConstraint("sealed IS NOT NULL OR retired_at IS NOT NULL", name="retired"),
)

# API tokens of people and pipelines; only a digest of the secret is stored.
api_token = Table(
    "api_token",
    control,
    Column("id", String(16), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("role", String(16), nullable=False),
    # None: it has access to all tenants.
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=True),
    Column("created_by", String(255), nullable=False),
    _time("created_at"),
    _time("expires_at"),
    _time("revoked_at", nullable=True),
    CheckConstraint(
        "role IN ('viewer', 'operator', 'deployer', 'admin', 'submitter')", name="role"
    ),
)
Index(
    "api_token_name_idx",
    api_token.c.name,
    unique=True,
    postgresql_where=text("revoked_at IS NULL"),
)

# The number of requests of a caller in the current window, over all processes of the API.
api_usage = Table(
    "api_usage",
    control,
    Column("caller", String(320), primary_key=True),
    _time("window_start"),
    Column("requests", Integer, nullable=False),
    # A crash of the server empties it, which only starts a new window.
    prefixes=["UNLOGGED"],
)

# Responses of writes that may be repeated, by the caller's idempotency key.
idempotency_key = Table(
    "idempotency_key",
    control,
    Column("caller", String(320), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("request_hash", String(64), nullable=False),
    # None only inside the transaction that does the work.
    Column("status", SmallInteger, nullable=True),
    # The exact bytes that were sent.
    Column("answer", Text, nullable=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
Index(None, idempotency_key.c.created_at)

# The webhooks that receive events; see docs/webhooks.md.
webhook = Table(
    "webhook",
    control,
    Column("name", String(128), primary_key=True),
    Column("url", String(2048), nullable=False),
    Column("event_types", ARRAY(Text), nullable=False),
    # None: all tenants, including future ones.
    Column("tenant_ids", ARRAY(Text), nullable=True),
    # The reference to the secret that signs requests; None: they are not signed.
    Column("secret_ref", String(2200), nullable=True),
    Column("in_batches", Boolean, nullable=False, server_default=false()),
    Column("created_by", String(255), nullable=False),
    _time("created_at"),
    _time("disabled_at", nullable=True),
    Column("disabled_reason", Text, nullable=True),
    # Events that expired before they could be delivered.
    Column("dropped", BigInteger, nullable=False, server_default=text("0")),
    _time("dropped_at", nullable=True),
)

# Events as the triggers write them; their order is not decided yet.
outbox = Table(
    "outbox",
    control,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    # The id of the event for receivers, the same in every delivery.
    Column("event_id", Uuid, nullable=False, server_default=func.gen_random_uuid()),
    Column("tenant_id", String(48), nullable=False),
    Column("type", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    _time("happened_at"),
    Column("data", JSONB, nullable=False),
)

# The progress of one webhook with one tenant's events.
webhook_lane = Table(
    "webhook_lane",
    control,
    Column("webhook_name", ForeignKey(webhook.c.name, ondelete="CASCADE"), primary_key=True),
    Column("tenant_id", String(48), primary_key=True),
    Column("last_placed", BigInteger, nullable=False),
    Column("last_delivered", BigInteger, nullable=False, server_default=text("0")),
    # When a replica may take it: after a backoff, or when the lease of the current replica ends.
    _time("due_at"),
    Column("lease_token", Uuid, nullable=True),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("last_error", Text, nullable=True),
)
Index(
    "webhook_lane_due_idx",
    webhook_lane.c.webhook_name,
    webhook_lane.c.due_at,
    postgresql_where=text("last_placed > last_delivered"),
)

# Events in order, one row per subscribed webhook, until they are delivered.
webhook_event = Table(
    "webhook_event",
    control,
    Column("webhook_name", ForeignKey(webhook.c.name, ondelete="CASCADE"), primary_key=True),
    Column("tenant_id", String(48), primary_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Uuid, nullable=False),
    Column("type", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    _time("happened_at"),
    Column("data", JSONB, nullable=False),
    _time("placed_at"),
)
# Finds the oldest event of each webhook, for its delay and for expiry.
Index("webhook_event_age_idx", webhook_event.c.webhook_name, webhook_event.c.placed_at)

# Event buses: the position of each in the log below; see docs/event-bus.md.
event_bus = Table(
    "event_bus",
    control,
    Column("name", String(255), primary_key=True),
    _time("declared_at"),
    # When a replica was last configured for it.
    _time("seen_at"),
    Column("last_published", BigInteger, nullable=False),
    # When a replica may lease it: after a backoff, or when the lease of the current replica ends.
    _time("due_at"),
    Column("lease_token", Uuid, nullable=True),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("last_error", Text, nullable=True),
    # Events that expired before they could be published, or that the bus has refused.
    Column("dropped", BigInteger, nullable=False, server_default=text("0")),
    _time("dropped_at", nullable=True),
)

# The log of placed events, one row for all buses, until the last of them has published it.
bus_event = Table(
    "bus_event",
    control,
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant_id", String(48), nullable=False),
    Column("event_id", Uuid, nullable=False),
    Column("type", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    _time("happened_at"),
    Column("data", JSONB, nullable=False),
    _time("placed_at"),
)

tenant_schedule = Table(
    "tenant_schedule",
    per_tenant,
    Column("id", Uuid, primary_key=True),
    Column("schedule_name", String(128), nullable=False, unique=True),
    Column("saga_name", String(128), nullable=False),
    Column("cron_expr", String(64), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=false()),
    # A soft reference: the version is in the control schema and may be pruned.
    Column("manifest_version_id", Uuid, nullable=False),
    Column("definition", JSONB, nullable=False),
    _time("created_at"),
    _time("updated_at"),
    # The last change of cron_expr, timezone or enabled: occurrences count from then on.
    Column("effective_from", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("jsonb_typeof(definition) = 'object'", name="definition"),
)
Index(
    "tenant_schedule_enabled_idx",
    tenant_schedule.c.schedule_name,
    postgresql_where=text("enabled"),
)

audit_record = Table("audit_record", per_tenant, *_audit_columns())
