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
