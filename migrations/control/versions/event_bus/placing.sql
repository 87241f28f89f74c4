-- The transaction that places events holds the lock of the outbox, so positions grow in the order of
-- commits here, too. It runs with the rights of its owner: schedulers cannot write to the log.
CREATE FUNCTION tenantcron.place_for_buses() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF TG_RELID <> 'tenantcron.outbox'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'place_for_buses() serves tenantcron.outbox only';
    END IF;
    IF EXISTS (SELECT FROM tenantcron.event_bus) THEN
        INSERT INTO tenantcron.bus_event (
            place, tenant_id, event_id, type, subject, happened_at, data, placed_at
        )
        SELECT
            nextval('tenantcron.outbox_id_seq'), sorted.tenant_id, sorted.event_id, sorted.type,
            sorted.subject, sorted.happened_at, sorted.data, statement_timestamp()
        FROM (SELECT * FROM gone ORDER BY id) AS sorted;
    END IF;
    RETURN NULL;
END
$function$;
REVOKE ALL ON FUNCTION tenantcron.place_for_buses() FROM PUBLIC;
CREATE TRIGGER outbox_placed_for_buses
    AFTER DELETE ON tenantcron.outbox
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.place_for_buses();
