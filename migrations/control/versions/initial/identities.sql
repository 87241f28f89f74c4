-- Identities: whoever changes a tenant changes them in the same transaction, by hand as well. A
-- tenant that is being created and a service that is being declared wait for each other, else
-- neither would see the other and one identity would be missing.
CREATE TABLE tenantcron.service (
    name varchar(128) NOT NULL,
    declared_at timestamptz NOT NULL,
    CONSTRAINT service_pkey PRIMARY KEY (name)
);
INSERT INTO tenantcron.service VALUES ('scheduler', now());
CREATE TABLE tenantcron.identity (
    tenant_id varchar(48) NOT NULL,
    id varchar(255) NOT NULL,
    role varchar(32) NOT NULL,
    status varchar(16) NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT identity_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT identity_tenant_id_fkey FOREIGN KEY (tenant_id)
        REFERENCES tenantcron.tenant (id) ON DELETE CASCADE,
    CONSTRAINT identity_role_check CHECK (role IN ('service')),
    CONSTRAINT identity_status_check CHECK (status IN ('active', 'suspended', 'deprovisioned'))
);
CREATE FUNCTION tenantcron.follow_tenant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_advisory_xact_lock_shared(1952672004, 0);
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
CREATE TRIGGER tenant_followed
    AFTER INSERT OR UPDATE OF status ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.follow_tenant();
CREATE FUNCTION tenantcron.follow_service() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(1952672004, 0);
    INSERT INTO tenantcron.identity
        SELECT id, 'system:scheduler:' || NEW.name, 'service', status, now(), now()
        FROM tenantcron.tenant;
    PERFORM tenantcron.put_on_record('service', NEW.name, 'create', NULL, to_jsonb(NEW));
    RETURN NULL;
END
$function$;
CREATE TRIGGER service_followed
    AFTER INSERT ON tenantcron.service
    FOR EACH ROW EXECUTE FUNCTION tenantcron.follow_service();
