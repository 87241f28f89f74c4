-- Event buses: the position of each in the log of events, and the lease of the replica that
-- publishes. A bus has a row while replicas are configured for it.
CREATE TABLE tenantcron.event_bus (
    name varchar(255) NOT NULL,
    declared_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    last_published bigint NOT NULL,
    due_at timestamptz NOT NULL,
    lease_token uuid,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    dropped bigint NOT NULL DEFAULT 0,
    dropped_at timestamptz,
    CONSTRAINT event_bus_pkey PRIMARY KEY (name)
);
-- The log: one row per event for all buses, until the last of them has published it.
CREATE TABLE tenantcron.bus_event (
    place bigint NOT NULL,
    tenant_id varchar(48) NOT NULL,
    event_id uuid NOT NULL,
    type varchar(64) NOT NULL,
    subject varchar(255) NOT NULL,
    happened_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    placed_at timestamptz NOT NULL,
    CONSTRAINT bus_event_pkey PRIMARY KEY (place)
);
-- Events are of several tenants, so only a caller that sees all tenants sees them.
ALTER TABLE tenantcron.event_bus ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.event_bus USING (tenantcron.sees('*'));
ALTER TABLE tenantcron.bus_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.bus_event USING (tenantcron.sees('*'));
CREATE TRIGGER event_bus_recorded
    AFTER INSERT OR DELETE ON tenantcron.event_bus
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('event_bus', 'name', 'lease_token');
