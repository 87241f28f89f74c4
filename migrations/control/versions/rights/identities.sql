-- As before, with the lock as a row. With the rights of their owner, because roles that declare a
-- service or change a status may change identities in no other way.
CREATE OR REPLACE FUNCTION tenantcron.follow_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF TG_RELID <> 'tenantcron.tenant'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'follow_tenant() serves tenantcron.tenant only';
    END IF;
    IF TG_OP = 'INSERT' THEN
        PERFORM FROM tenantcron.lock WHERE name = 'services' FOR SHARE;
        INSERT INTO tenantcron.identity
            SELECT NEW.id, 'system:scheduler:' || name, 'service', NEW.status, now(), now()
            FROM tenantcron.service;
    ELSE
        UPDATE tenantcron.identity SET status = NEW.status, updated_at = now()
            WHERE tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END
$function$;
CREATE OR REPLACE FUNCTION tenantcron.follow_service() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF TG_RELID <> 'tenantcron.service'::regclass THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'follow_service() serves tenantcron.service only';
    END IF;
    PERFORM FROM tenantcron.lock WHERE name = 'services' FOR UPDATE;
    INSERT INTO tenantcron.identity
        SELECT id, 'system:scheduler:' || NEW.name, 'service', status, now(), now()
        FROM tenantcron.tenant;
    PERFORM tenantcron.put_on_record('service', NEW.name, 'create', NULL, to_jsonb(NEW));
    RETURN NULL;
END
$function$;
