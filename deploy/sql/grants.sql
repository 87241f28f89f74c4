-- The privileges of each role of roles.sql in the schema tenantcron. Run it with psql as
-- tenantcron_deploy after every `tenantcron migrate`; it is idempotent. tests/deploy/test_rights.py
-- runs every command with exactly these privileges.
BEGIN;
REVOKE ALL ON ALL TABLES IN SCHEMA tenantcron
    FROM tenantcron_run, tenantcron_operate, tenantcron_plan;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenantcron
    FROM tenantcron_run, tenantcron_operate, tenantcron_plan;
GRANT USAGE ON SCHEMA tenantcron TO tenantcron_run, tenantcron_operate, tenantcron_plan;

-- All of them read the times at which schedules changed, for lists of audit records.
GRANT SELECT ON tenantcron.schedule_change
    TO tenantcron_run, tenantcron_operate, tenantcron_plan;
-- The trigger that records the change of a schedule adds its time.
GRANT INSERT ON tenantcron.schedule_change TO tenantcron_operate;

-- All of them read the scheduler's state and the version of the tables.
GRANT SELECT ON
    tenantcron.schema_version, tenantcron.tenant, tenantcron.limits, tenantcron.manifest_version,
    tenantcron.schedule_definition, tenantcron.schedule_cursor, tenantcron.execution_attempt,
    tenantcron.worker, tenantcron.failover, tenantcron.failover_loss, tenantcron.service,
    tenantcron.identity, tenantcron.audit_record, tenantcron.tenant_label,
    tenantcron.tenant_source, tenantcron.tenant_source_problem, tenantcron.task,
    tenantcron.live_log
    TO tenantcron_run, tenantcron_operate, tenantcron_plan;
GRANT SELECT ON tenantcron.execution TO tenantcron_run, tenantcron_operate;
-- A plan's role reads executions without their leases: who knows one can end the execution.
DO $$
BEGIN
    EXECUTE format(
        'GRANT SELECT (%s) ON tenantcron.execution TO tenantcron_plan',
        (
            SELECT string_agg(quote_ident(a.attname), ', ')
            FROM pg_attribute AS a
            WHERE
                a.attrelid = 'tenantcron.execution'::regclass AND a.attnum > 0
                AND NOT a.attisdropped AND a.attname <> 'lease_token'
        )
    );
END $$;
GRANT SELECT ON tenantcron.metering TO tenantcron_operate, tenantcron_plan;
-- Row-level security calls the first three for each role that reads.
GRANT EXECUTE ON FUNCTION
    tenantcron.sees(text), tenantcron.sees_schema(text), tenantcron.schema_of(text),
    tenantcron.running_now(), tenantcron.starts_in_minute(text, timestamptz)
    TO tenantcron_run, tenantcron_operate, tenantcron_plan;
-- tenantcron_plan sees the state of webhooks, but neither their URLs nor their events.
GRANT SELECT ON
    tenantcron.webhook, tenantcron.webhook_lane, tenantcron.webhook_event, tenantcron.outbox
    TO tenantcron_run, tenantcron_operate;
GRANT SELECT (
    name, event_types, tenant_ids, in_batches, created_by, created_at, disabled_at,
    disabled_reason, dropped, dropped_at
) ON tenantcron.webhook TO tenantcron_plan;
GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
    ON tenantcron.webhook_lane TO tenantcron_plan;
GRANT SELECT (webhook_name, tenant_id, place, placed_at)
    ON tenantcron.webhook_event TO tenantcron_plan;
-- The same for event buses.
GRANT SELECT ON tenantcron.event_bus, tenantcron.bus_event TO tenantcron_run, tenantcron_operate;
GRANT SELECT (name, seen_at, last_published, failures, last_error, dropped, dropped_at)
    ON tenantcron.event_bus TO tenantcron_plan;
GRANT SELECT (place, placed_at) ON tenantcron.bus_event TO tenantcron_plan;

-- Triggers write the audit with the privileges of the role that makes a change. It is append-only.
GRANT INSERT ON tenantcron.audit_record TO tenantcron_run, tenantcron_operate;
GRANT EXECUTE ON FUNCTION
    tenantcron.acting(), tenantcron.put_on_record(text, text, text, jsonb, jsonb)
    TO tenantcron_run, tenantcron_operate;
-- Locks for steps that only one process at a time may run.
GRANT EXECUTE ON FUNCTION tenantcron.take_lock(text) TO tenantcron_run, tenantcron_operate;
GRANT EXECUTE ON FUNCTION tenantcron.try_lock(text) TO tenantcron_run;

-- The scheduler fires, claims, runs and records. Operators trigger, retry and cancel.
GRANT INSERT, UPDATE ON tenantcron.execution TO tenantcron_run, tenantcron_operate;
GRANT INSERT ON tenantcron.execution_attempt TO tenantcron_run;
-- It stores the log of an attempt while it runs, and deletes it when the attempt has ended.
GRANT INSERT, UPDATE, DELETE ON tenantcron.live_log TO tenantcron_run;
-- The scheduler fires tasks and deletes old ones. Operators submit, cancel and reschedule them.
GRANT UPDATE ON tenantcron.task TO tenantcron_run, tenantcron_operate;
GRANT DELETE ON tenantcron.task TO tenantcron_run;
GRANT EXECUTE ON FUNCTION tenantcron.has_former_replica() TO tenantcron_run, tenantcron_operate;
GRANT EXECUTE ON FUNCTION tenantcron.submit_tasks_at(text, json, timestamptz)
    TO tenantcron_operate;
-- Claims and heartbeats access the partition of unfinished executions by name.
GRANT SELECT, UPDATE ON tenantcron.execution_live TO tenantcron_run;
-- Cursors are kept in sync with the schedules, by the scheduler and by operators' commands.
GRANT INSERT, UPDATE, DELETE ON tenantcron.schedule_cursor, tenantcron.schedule_definition
    TO tenantcron_run, tenantcron_operate;
GRANT UPDATE (synced_revision, sync_fault, weight, updated_at) ON tenantcron.tenant
    TO tenantcron_run;
-- A scheduler reports itself and what a failover has lost, and declares its service,
-- its limits, and the weights of its policy.
GRANT INSERT, UPDATE, DELETE ON tenantcron.worker TO tenantcron_run;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenantcron.capability TO tenantcron_run;
-- Claims spend the calls of hosts with a rate limit.
GRANT SELECT, INSERT, UPDATE, DELETE ON tenantcron.rate_limit TO tenantcron_run;
GRANT INSERT ON tenantcron.failover TO tenantcron_run;
GRANT INSERT, DELETE ON tenantcron.failover_loss TO tenantcron_run;
GRANT INSERT ON tenantcron.service TO tenantcron_run;
GRANT UPDATE ON tenantcron.limits TO tenantcron_run, tenantcron_operate;
-- Claims count the starts of tenants.
GRANT SELECT, INSERT, UPDATE ON tenantcron.tenant_start TO tenantcron_run;
-- Claims divide scarce slots. Ended attempts are charged to their tenants, also by the API.
GRANT SELECT, INSERT, UPDATE ON tenantcron.share_period, tenantcron.tenant_share TO tenantcron_run;
GRANT SELECT ON tenantcron.share_period TO tenantcron_operate;
GRANT SELECT, INSERT, UPDATE ON tenantcron.tenant_usage TO tenantcron_run, tenantcron_operate;
-- Partitions of the history are created in advance and dropped when they are old. A short lock
-- before the drop ensures that no execution moves into the partition meanwhile.
GRANT EXECUTE ON FUNCTION tenantcron.make_month(text, date) TO tenantcron_run, tenantcron_operate;
GRANT EXECUTE ON FUNCTION tenantcron.drop_month(date) TO tenantcron_run;
-- A function creates the roles of handlers, whose passwords derive from a secret.
GRANT EXECUTE ON FUNCTION tenantcron.handler_role(text),
    tenantcron.ensure_handler_role(text, text) TO tenantcron_run;
GRANT SELECT ON tenantcron.handler_login TO tenantcron_run;
-- Housekeeping drops an index after a rolling upgrade.
GRANT EXECUTE ON FUNCTION tenantcron.drop_waiting_index() TO tenantcron_run;
-- It also deletes old audit records and manifest versions; the functions reject younger ones.
GRANT EXECUTE ON FUNCTION
    tenantcron.forget_audit_records(text, interval, integer),
    tenantcron.forget_manifest_versions(text, integer, integer)
    TO tenantcron_run;
GRANT UPDATE ON tenantcron.execution_past TO tenantcron_run;
-- Events are ordered and delivered to webhooks; a webhook that responds with 410 is disabled.
GRANT DELETE ON tenantcron.outbox TO tenantcron_run;
GRANT USAGE ON SEQUENCE tenantcron.outbox_id_seq TO tenantcron_run;
GRANT INSERT, UPDATE ON tenantcron.webhook_lane TO tenantcron_run;
GRANT INSERT, DELETE ON tenantcron.webhook_event TO tenantcron_run;
GRANT UPDATE (disabled_at, disabled_reason, dropped, dropped_at) ON tenantcron.webhook
    TO tenantcron_run;
-- A scheduler declares its event bus and publishes to it. A trigger writes the events for buses.
GRANT INSERT, UPDATE, DELETE ON tenantcron.event_bus TO tenantcron_run;
GRANT DELETE ON tenantcron.bus_event TO tenantcron_run;
-- Execution tokens are signed; the first token creates the first key. Operators rotate keys.
GRANT SELECT, INSERT, UPDATE ON tenantcron.signing_key TO tenantcron_run, tenantcron_operate;

-- Operators and the API apply manifests to tenants that exist, and change status and limits.
GRANT INSERT ON tenantcron.manifest_version TO tenantcron_operate;
-- Not id and schema_name: they determine what a tenant's handlers may read and write.
GRANT UPDATE (
    status, status_reason, max_schedules, max_concurrent, weight, labels, sourced, missing_since,
    schedule_revision, synced_revision, sync_fault, updated_at, quotas
) ON tenantcron.tenant TO tenantcron_operate;
GRANT EXECUTE ON FUNCTION
    tenantcron.recording(text, text), tenantcron.notice_change_by_hand(text, bigint)
    TO tenantcron_operate;
-- A trigger maintains the labels. `tenant refresh` syncs tenants with the tenant source.
GRANT INSERT, DELETE ON tenantcron.tenant_label TO tenantcron_operate;
GRANT INSERT, UPDATE, DELETE ON tenantcron.tenant_source, tenantcron.tenant_source_problem
    TO tenantcron_operate;
GRANT INSERT, UPDATE, DELETE ON tenantcron.webhook TO tenantcron_operate;
-- The API looks up tokens, counts requests, and stores the responses of writes for a day.
GRANT SELECT, INSERT, UPDATE ON tenantcron.api_token, tenantcron.api_usage TO tenantcron_operate;
GRANT DELETE ON tenantcron.api_usage TO tenantcron_operate;
-- It checks whether the attempt of an execution token still runs.
GRANT SELECT ON tenantcron.execution_live TO tenantcron_operate;
-- The API records the attempts that remote workers end.
GRANT INSERT ON tenantcron.execution_attempt TO tenantcron_operate;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenantcron.idempotency_key TO tenantcron_operate;

-- Applications submit tasks in their own transactions, and cannot read or change anything.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_submit') THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA tenantcron FROM tenantcron_submit;
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenantcron FROM tenantcron_submit;
        GRANT USAGE ON SCHEMA tenantcron TO tenantcron_submit;
        GRANT EXECUTE ON FUNCTION
            tenantcron.submit_tasks(text, json),
            tenantcron.submit_task(
                text, text, json, timestamptz, interval, text, text, json, interval, text, json
            )
            TO tenantcron_submit;
    END IF;
END $$;

-- When a tenant is created, privileges on its tables derive from those on manifest_version. This
-- adds them for tenants that were created before the roles.
DO $$
BEGIN
    PERFORM tenantcron.open_to_api(t.schema_name)
    FROM tenantcron.tenant AS t
    JOIN pg_namespace AS n ON n.nspname = t.schema_name
    JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'tenant_schedule'
    WHERE
        NOT has_table_privilege('tenantcron_run', c.oid, 'SELECT')
        OR NOT has_table_privilege('tenantcron_operate', c.oid, 'INSERT')
        OR NOT has_table_privilege('tenantcron_plan', c.oid, 'SELECT');
END $$;
COMMIT;
