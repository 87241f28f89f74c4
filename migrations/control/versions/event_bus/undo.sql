-- After the functions that name the tables.
CREATE OR REPLACE FUNCTION tenantcron.is_heard(event_type text, of_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (
        SELECT FROM tenantcron.webhook AS w
        WHERE
            w.disabled_at IS NULL AND event_type = ANY (w.event_types)
            AND (w.tenant_ids IS NULL OR of_tenant = ANY (w.tenant_ids))
    );
DROP TRIGGER outbox_placed_for_buses ON tenantcron.outbox;
DROP FUNCTION tenantcron.place_for_buses();
DROP TABLE tenantcron.event_bus, tenantcron.bus_event;
