"""All tables, declared once.

Control tables live in the schema `tenantcron`, once per database. Tenant tables are declared on the
placeholder schema `tenant`; whoever runs a statement says whose schema is meant by
`schema_translate_map` (see `engine.of_tenant`). A change here needs a migration: a test compares
what these declarations create with what all migrations create.

`updated_at` is set by the application, in the statement that changes the row, so that a plan can
tell a change by apply from one by hand.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
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
    """The columns of both audit tables: what happened to which entity, who did it, and in what."""
    return [
        Column("entity_type", String(32), primary_key=True),
        Column("entity_id", String(255), primary_key=True),
        # Last in the key: what happened to an entity is asked for, and each index of a tenant's
        # schema is made a thousand times.
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
    # None: the platform's own limit holds.
    Column("max_schedules", Integer, nullable=True),
    Column("max_concurrent", Integer, nullable=True),
    Column("weight", SmallInteger, nullable=False, server_default=text("1")),
    # Goes up in the same transaction as any change of the tenant's schedules.
    Column("schedule_revision", BigInteger, nullable=False, server_default=text("0")),
    # The provider's two columns: the revision that the cursors follow, and why they cannot.
    Column("synced_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("sync_fault", Text, nullable=True),
    Column("labels", JSONB, nullable=False, server_default=text("'{}'")),
    # The tenant source manages its status, and its weight and labels if it has them.
    Column("sourced", Boolean, nullable=False, server_default=false()),
    # Since when the source does not have it any more.
    _time("missing_since", nullable=True),
    _time("created_at"),
    _time("updated_at"),
    # Whether the schema was there before the tenant: then it is the platform's, and never dropped.
    Column("schema_adopted", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("status IN ('active', 'suspended', 'deprovisioned')", name="status"),
    CheckConstraint("max_schedules >= 0", name="max_schedules"),
    CheckConstraint("max_concurrent >= 1", name="max_concurrent"),
    CheckConstraint("weight BETWEEN 1 AND 100", name="weight"),
)
# Finds who moved without reading all tenants.
Index(
    "tenant_moved_idx", tenant.c.id, postgresql_where=text("schedule_revision <> synced_revision")
)
Index("tenant_missing_idx", tenant.c.id, postgresql_where=text("missing_since IS NOT NULL"))

# The labels again, for lists; a trigger keeps them. An index on `tenant.labels` would not serve the
# API, because row-level security lets only leakproof operators reach an index.
tenant_label = Table(
    "tenant_label",
    control,
    Column("tenant_id", String(48), ForeignKey(tenant.c.id, ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Index(None, "key", "value", "tenant_id"),
)

# One row, and only where the platform's registry is the source of tenants.
tenant_source = Table(
    "tenant_source",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    # What is read, as people know it.
    Column("name", Text, nullable=False),
    # Nothing starts when the last read is older than that.
    Column("max_age", Interval, nullable=False),
    # What the source manages beside the status.
    Column("columns", ARRAY(Text), nullable=False, server_default="{}"),
    # The registered tenants are what the source had then.
    _time("refreshed_at"),
    # The refresh that has the turn: its token, and when it began, was last alive and ended.
    Column("token", Uuid, nullable=True),
    _time("started_at", nullable=True),
    _time("renewed_at", nullable=True),
    _time("finished_at", nullable=True),
    # Tenants that went missing and were kept as they are, because there were too many of them.
    Column("held", Integer, nullable=False, server_default=text("0")),
    # How many problems the last refresh has found; the first of them have rows.
    Column("problems", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("only_row", name="only_row"),
)
tenant_source_problem = Table(
    "tenant_source_problem",
    control,
    Column("place", Integer, primary_key=True, autoincrement=False),
    # As the source spells it; `*` for a problem of the source itself.
    Column("tenant_id", Text, nullable=False),
    Column("problem", Text, nullable=False),
)

manifest_version = Table(
    "manifest_version",
    control,
    Column("id", Uuid, primary_key=True),
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=False),
    Column("version", Integer, nullable=False),
    # Of the document: two spellings of the same schedules are one version.
    Column("checksum", String(64), nullable=False),
    # Of the manifest's bytes and the policy they were judged by: what it was made from.
    Column("source_checksum", String(64), nullable=False),
    Column("document", JSONB, nullable=False),
    Column("applied_by", String(255), nullable=False),
    _time("applied_at"),
    Column("source_ref", String(255), nullable=True),
    UniqueConstraint("tenant_id", "version"),
)
Index(None, manifest_version.c.source_checksum)

# What happens to control rows, beside them: it outlives a tenant's schema.
control_audit_record = Table(
    "audit_record",
    control,
    *_audit_columns(),
    # Whose tenant's it is; None for what concerns the cluster.
    Column("tenant_id", String(48), nullable=True),
)
Index(
    "audit_record_tenant_idx",
    control_audit_record.c.tenant_id,
    control_audit_record.c.changed_at,
    control_audit_record.c.id,
    postgresql_where=text("tenant_id IS NOT NULL"),
)
# Records are written in the order of time, so a few pages of it tell which of them are old.
Index("audit_record_changed_idx", control_audit_record.c.changed_at, postgresql_using="brin")

# How many executions may run at once, over all replicas. One row; what an operator sets goes
# before what the scheduler's settings declare.
limits = Table(
    "limits",
    control,
    Column("only_row", Boolean, primary_key=True, server_default=true()),
    Column("declared", Integer, nullable=False, server_default=text("20")),
    Column("declared_per_tenant", Integer, nullable=False, server_default=text("5")),
    Column("operator", Integer, nullable=True),
    Column("operator_per_tenant", Integer, nullable=True),
    _time("updated_at", nullable=True),
    CheckConstraint("only_row", name="only_row"),
    CheckConstraint("declared >= 1 AND declared_per_tenant >= 1", name="declared"),
    # An operator may stop all starts with 0.
    CheckConstraint("operator >= 0 AND operator_per_tenant >= 0", name="operator"),
)

# What the names and passwords of the roles of handlers are made from; see `handler_roles`.
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

# What schedules say beside their timetable. Content-addressed: cursors and executions name it by
# its id, so that an attempt months later still runs what its occurrence was fired with.
schedule_definition = Table(
    "schedule_definition",
    control,
    Column("id", Uuid, primary_key=True),
    Column("definition", JSONB, nullable=False),
    # Since when no cursor names it; kept for as long as executions may.
    _time("unused_since", nullable=True),
)

schedule_cursor = Table(
    "schedule_cursor",
    control,
    Column("schedule_id", Uuid, primary_key=True),
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=False),
    Column("schedule_name", String(128), nullable=False),
    Column("saga_name", String(128), nullable=False),
    # Which provider it follows; no provider touches another's cursors.
    Column("provider", String(32), nullable=False),
    Column("cron_expr", String(64), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("tz_version", String(16), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("definition_id", Uuid, nullable=False),
    # Since when the timetable counts: nothing before it is ever fired.
    _time("effective_from"),
    # None: no occurrence lies ahead.
    _time("next_run_at", nullable=True),
    _time("last_run_at", nullable=True),
    Column("consecutive_failures", Integer, nullable=False, server_default=text("0")),
    _time("paused_at", nullable=True),
    Column("paused_by", String(255), nullable=True),
    Column("paused_reason", Text, nullable=True),
    _time("paused_until", nullable=True),
    # Why it cannot be evaluated; such a cursor is set aside until the schedule changes.
    Column("fault", Text, nullable=True),
    # Where the timetable was counted from, if that is later than `effective_from`: the one before
    # it goes on until a scheduler takes the change up.
    _time("counts_after", nullable=True),
    UniqueConstraint("tenant_id", "schedule_name"),
)
# Paused ones are due, too: each of their occurrences is put on record as skipped.
Index(
    "schedule_cursor_due_idx",
    schedule_cursor.c.next_run_at,
    postgresql_with={"deduplicate_items": "off"},
    postgresql_where=text("enabled AND fault IS NULL AND next_run_at IS NOT NULL"),
)
# Finds the few that do not fire as they should without reading all.
Index(
    "schedule_cursor_quiet_idx",
    schedule_cursor.c.tenant_id,
    postgresql_where=text("fault IS NOT NULL OR paused_at IS NOT NULL"),
)
# A success ends a row of failures; whether there is one is asked for every success.
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
    # 0 is critical, 3 is low.
    Column("priority", SmallInteger, nullable=False),
    _time("not_before"),
    # None: it waits for a slot for as long as it takes.
    _time("start_deadline", nullable=True),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("attempts_allowed", Integer, nullable=False),
    _time("lease_until", nullable=True),
    Column("lease_token", Uuid, nullable=True),
    Column("worker_id", String(128), nullable=True),
    Column("actor_id", String(255), nullable=False),
    Column("actor_type", String(32), nullable=False),
    Column("actor_source", String(64), nullable=False),
    # Earlier occurrences that this row stands for besides its own: since when, and how many.
    _time("covers_from", nullable=True),
    Column("missed_count", Integer, nullable=False, server_default=text("0")),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("finished_at", nullable=True),
    _time("cancel_requested_at", nullable=True),
    Column("cancel_reason", Text, nullable=True),
    # How often a worker was lost with it, and how many of its latest attempts in a row were lost.
    Column("losses", Integer, nullable=False, server_default=text("0")),
    Column("suspicion", Integer, nullable=False, server_default=text("0")),
    # What a replica needs to run it: `saga:<name>`, or the kind of its target. None: not decided
    # yet, by a replica of the release before.
    Column("requires", String(136), nullable=True),
    CheckConstraint(
        "state <> 'RUNNING' OR lease_until IS NOT NULL AND lease_token IS NOT NULL "
        "AND worker_id IS NOT NULL AND started_at IS NOT NULL",
        name="running",
    ),
    postgresql_partition_by="LIST (state)",
)
# What has ended moves to another partition, and is kept there by months. So what the scheduler
# works on stays small, whatever the history: a statement that says which states it means touches no
# more. SQLAlchemy has no words for partitions. Their lists are the check of the states. The release
# before writes FAILED for RETRYING. Who lists executions of all tenants wants the newest, and must
# not read all the history for them; what is live has no such index, because it is small, and each
# one would slow down firing. The dead are few, and people look for them first.
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
    # Of HTTP targets: what the service answered, and how that began.
    Column("http_status", Integer, nullable=True),
    Column("answer", Text, nullable=True),
    # Of handlers: the end of what they logged, and what they returned.
    Column("log", Text, nullable=True),
    Column("result", JSONB, nullable=True),
    CheckConstraint(
        "outcome IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST', 'INTERRUPTED', 'CANCELLED', "
        "'REFUSED')",
        name="outcome",
    ),
    postgresql_partition_by="RANGE (scheduled_for)",
)

# One row for each step that one process at a time may take; see `locks`.
lock = Table(
    "lock",
    control,
    Column("name", String(32), primary_key=True),
    # The advisory lock of the same step in the release before.
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
    # Handlers in threads that run on after their time was up: nobody can stop a thread.
    Column("abandoned", Integer, nullable=False, server_default=text("0")),
    Column("draining", Boolean, nullable=False, server_default=false()),
    # Patterns of what it can run; None: a replica of the release before, which runs anything.
    Column("capabilities", ARRAY(Text), nullable=True),
    # What it could not start for want of slots, and when. Others leave it its places in the order.
    Column("wants", ARRAY(Text), nullable=True),
    _time("wants_at", nullable=True),
)

# When a replica last named something that it can run. A catch-all leaves it alone for a while.
capability = Table(
    "capability",
    control,
    Column("name", String(136), primary_key=True),
    _time("named_at"),
)

# The timelines that the database has had, each noticed by a replica.
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

# The names that schedulers run under; each has an identity in every tenant.
service = Table(
    "service",
    control,
    Column("name", String(128), primary_key=True),
    _time("declared_at"),
)

# Who calls other services for a tenant: `system:scheduler:{service}`. Triggers on `tenant` and on
# `service` write it, so that it lives and ends with its tenant whoever changes that.
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
    # The private key, encrypted; None once it was taken out of use: then nobody has it.
    Column("sealed", LargeBinary, nullable=True),
    Column("sealed_by", String(32), nullable=True),
    _time("created_at"),
    # Verifiers know it before it signs.
    _time("active_from"),
    _time("retired_at", nullable=True),
    CheckConstraint("algorithm IN ('EdDSA', 'ES256')", name="algorithm"),
    CheckConstraint("(sealed IS NULL) = (sealed_by IS NULL)", name="sealed"),
    CheckConstraint("sealed IS NOT NULL OR retired_at IS NOT NULL", name="retired"),
)

# What people and pipelines prove themselves with at the API; of the secret only its digest.
api_token = Table(
    "api_token",
    control,
    Column("id", String(16), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("role", String(16), nullable=False),
    # None: it sees all tenants.
    Column("tenant_id", String(48), ForeignKey(tenant.c.id), nullable=True),
    Column("created_by", String(255), nullable=False),
    _time("created_at"),
    _time("expires_at"),
    _time("revoked_at", nullable=True),
    CheckConstraint("role IN ('viewer', 'operator', 'deployer', 'admin')", name="role"),
)
Index(
    "api_token_name_idx",
    api_token.c.name,
    unique=True,
    postgresql_where=text("revoked_at IS NULL"),
)

# How many requests a caller has made in the current window, over all processes of the API.
api_usage = Table(
    "api_usage",
    control,
    Column("caller", String(320), primary_key=True),
    _time("window_start"),
    Column("requests", Integer, nullable=False),
    # A crash of the server empties it, which only begins the window anew.
    prefixes=["UNLOGGED"],
)

# The answers of writes that may come twice, by the caller's own key.
idempotency_key = Table(
    "idempotency_key",
    control,
    Column("caller", String(320), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("request_hash", String(64), nullable=False),
    # None only inside the transaction that does the work.
    Column("status", SmallInteger, nullable=True),
    # As it was sent, to the byte.
    Column("answer", Text, nullable=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
Index(None, idempotency_key.c.created_at)

# Who is told of what happens, and where; see docs/webhooks.md.
webhook = Table(
    "webhook",
    control,
    Column("name", String(128), primary_key=True),
    Column("url", String(2048), nullable=False),
    Column("event_types", ARRAY(Text), nullable=False),
    # None: all tenants, also those to come.
    Column("tenant_ids", ARRAY(Text), nullable=True),
    # Where the secret is kept that requests are signed with; None: they are not signed.
    Column("secret_ref", String(2200), nullable=True),
    Column("in_batches", Boolean, nullable=False, server_default=false()),
    Column("created_by", String(255), nullable=False),
    _time("created_at"),
    _time("disabled_at", nullable=True),
    Column("disabled_reason", Text, nullable=True),
    # Events that were too old before they could be delivered.
    Column("dropped", BigInteger, nullable=False, server_default=text("0")),
    _time("dropped_at", nullable=True),
)

# Events as the triggers write them, in no order that anybody could rely on yet.
outbox = Table(
    "outbox",
    control,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    # What receivers know it by, in every delivery.
    Column("event_id", Uuid, nullable=False, server_default=func.gen_random_uuid()),
    Column("tenant_id", String(48), nullable=False),
    Column("type", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    _time("happened_at"),
    Column("data", JSONB, nullable=False),
)

# Where one webhook stands with one tenant's events.
webhook_lane = Table(
    "webhook_lane",
    control,
    Column("webhook_name", ForeignKey(webhook.c.name, ondelete="CASCADE"), primary_key=True),
    Column("tenant_id", String(48), primary_key=True),
    Column("last_placed", BigInteger, nullable=False),
    Column("last_delivered", BigInteger, nullable=False, server_default=text("0")),
    # When somebody may take it: after a failure later, and while it is taken when the lease ends.
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

# Events in their place, one row for each webhook that wants them, until they are delivered.
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
# The oldest of each webhook, for whoever asks how far behind it is, and for what is too old.
Index("webhook_event_age_idx", webhook_event.c.webhook_name, webhook_event.c.placed_at)

tenant_schedule = Table(
    "tenant_schedule",
    per_tenant,
    Column("id", Uuid, primary_key=True),
    Column("schedule_name", String(128), nullable=False, unique=True),
    Column("saga_name", String(128), nullable=False),
    Column("cron_expr", String(64), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=false()),
    # A soft reference: the version lives in the control schema, and may be pruned one day.
    Column("manifest_version_id", Uuid, nullable=False),
    Column("definition", JSONB, nullable=False),
    _time("created_at"),
    _time("updated_at"),
    # Since when cron_expr, timezone and enabled are what they are: the scheduler counts from it.
    Column("effective_from", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("jsonb_typeof(definition) = 'object'", name="definition"),
)
Index(
    "tenant_schedule_enabled_idx",
    tenant_schedule.c.schedule_name,
    postgresql_where=text("enabled"),
)

audit_record = Table("audit_record", per_tenant, *_audit_columns())
