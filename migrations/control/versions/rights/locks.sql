-- One row for each step that only one replica at a time may take. A row can be locked only with
-- rights on the table, an advisory lock by every login: see store/connection/locks.py.
CREATE TABLE tenantcron.lock (
    name varchar(32) NOT NULL,
    -- The advisory lock of the same step in the release before.
    advisory_key integer NOT NULL,
    CONSTRAINT lock_pkey PRIMARY KEY (name)
);
INSERT INTO tenantcron.lock (name, advisory_key) VALUES
    ('claim', 1952672002),
    ('history', 1952672003),
    ('services', 1952672004),
    ('signing_keys', 1952672005),
    ('outbox', 1952672006),
    ('webhooks', 1952672007);
-- Whether a replica of the release before was seen in the last hour: it declares no capabilities.
CREATE FUNCTION tenantcron.has_former_replica() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (
        SELECT FROM tenantcron.worker
        WHERE capabilities IS NULL AND seen_at > statement_timestamp() - interval '1 hour'
    );
-- What follows the row lock is a statement of its own: its snapshot was taken under the lock.
CREATE FUNCTION tenantcron.take_lock(of_name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    former_key integer;
BEGIN
    SELECT advisory_key INTO former_key FROM tenantcron.lock WHERE name = of_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'no_data_found',
            MESSAGE = format('tenantcron.lock has no row %L', of_name),
            HINT = 'Insert the row again: nothing starts without it.';
    END IF;
    IF tenantcron.has_former_replica() THEN
        PERFORM pg_advisory_xact_lock(former_key, -2147483648);
    END IF;
END
$function$;
CREATE FUNCTION tenantcron.try_lock(of_name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    former_key integer;
BEGIN
    SELECT advisory_key INTO former_key FROM tenantcron.lock
        WHERE name = of_name FOR UPDATE SKIP LOCKED;
    IF FOUND AND tenantcron.has_former_replica() THEN
        RETURN pg_try_advisory_xact_lock(former_key, -2147483648);
    END IF;
    RETURN former_key IS NOT NULL;
END
$function$;
-- A replica of the release before is registered while no other one holds a lock. So whichever takes
-- a lock after that sees it.
CREATE FUNCTION tenantcron.await_claims() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF TG_RELID <> 'tenantcron.worker'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'await_claims() serves tenantcron.worker only';
    END IF;
    PERFORM FROM tenantcron.lock ORDER BY name FOR UPDATE;
    RETURN NULL;
END
$function$;
CREATE TRIGGER worker_awaits_claims
    AFTER INSERT ON tenantcron.worker
    FOR EACH ROW WHEN (NEW.capabilities IS NULL) EXECUTE FUNCTION tenantcron.await_claims();
