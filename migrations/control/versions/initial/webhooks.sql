-- Who is told of what happens. The row of a webhook is on record; how much was dropped of its
-- events is a number that goes up by itself.
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
