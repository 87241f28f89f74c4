-- What the names and passwords of the roles of handlers are made from.
CREATE TABLE tenantcron.handler_login (
    only_row boolean NOT NULL DEFAULT true,
    installation uuid NOT NULL DEFAULT gen_random_uuid(),
    secret text NOT NULL DEFAULT gen_random_uuid()::text || gen_random_uuid()::text,
    CONSTRAINT handler_login_pkey PRIMARY KEY (only_row),
    CONSTRAINT handler_login_only_row_check CHECK (only_row)
);
INSERT INTO tenantcron.handler_login DEFAULT VALUES;
-- Default privileges may have given the table to other roles when it was created.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = 'tenantcron.handler_login'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON tenantcron.handler_login FROM %s', reader);
    END LOOP;
END $$;
-- Roles belong to the server. The id keeps installations apart that meet on one server, the oid
-- keeps a database apart from its copies. Without a tenant: the role that all of them are in.
CREATE FUNCTION tenantcron.handler_role(tenant text DEFAULT NULL) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
SELECT 'tc_' || left(encode(sha256((l.installation || '/' || d.oid)::bytea), 'hex'), 8)
    || coalesce('_' || tenant, '')
FROM tenantcron.handler_login AS l, pg_database AS d
WHERE d.datname = current_database();
$function$;
