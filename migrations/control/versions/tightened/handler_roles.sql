-- Makes the role that a tenant's handlers log in as, and grants what it lacks. Cheap if nothing is
-- missing. Settings that a handler has stored for its role are removed: its next session would begin
-- with them. A role that exists keeps NOLOGIN, unless `drop_handler_role` has set it. `verifier` is
-- the password as SCRAM has it; returns whether it made a role without one.
-- Without a tenant: only the role that all of them are in.
CREATE OR REPLACE FUNCTION tenantcron.ensure_handler_role(
    tenant text DEFAULT NULL, verifier text DEFAULT NULL
) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- A handler can lock its own role, by changing its password. Others must not wait for that.
    SET lock_timeout = '2s' AS $function$
DECLARE
    group_role text := tenantcron.handler_role();
    login text := tenantcron.handler_role(tenant);
    of_schema text;
    missing text;
    made boolean;
    -- Where a role can store settings: for all databases, and for this one.
    places oid[] := ARRAY[
        0, (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    ];
BEGIN
    SELECT t.schema_name INTO of_schema FROM tenantcron.tenant AS t
        WHERE t.id = tenant AND t.status <> 'deprovisioned';
    IF tenant IS NOT NULL AND of_schema IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('there is no tenant %L, or it is deprovisioned', tenant);
    END IF;
    IF of_schema IN ('tenantcron', 'public', 'information_schema') OR of_schema LIKE 'pg\_%' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('schema %I belongs to no tenant alone', of_schema),
            HINT = 'Give the tenant a separate schema, or grant rights on single tables to its role';
    END IF;
    IF verifier IS NULL
        AND to_regrole(quote_ident(group_role)) IS NOT NULL
        AND to_regrole(quote_ident(login)) IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM tenantcron.missing_handler_rights(
                to_regrole(quote_ident(group_role)), to_regrole(quote_ident(login)), of_schema
            )
        )
        AND NOT EXISTS (
            SELECT FROM pg_db_role_setting AS s
            WHERE s.setrole = to_regrole(quote_ident(login)) AND s.setdatabase = ANY (places)
        )
    THEN
        RETURN false;
    END IF;
    -- Two sessions cannot change the rights of the same object at once. The rights of the group
    -- concern all tenants, and are changed once; a tenant's own ones make no other tenant wait.
    IF tenant IS NULL THEN
        PERFORM FROM tenantcron.handler_login FOR UPDATE;
        made := tenantcron.make_handler_role(group_role, 'NOLOGIN');
    ELSE
        PERFORM tenantcron.ensure_handler_role();
        SELECT t.schema_name INTO of_schema FROM tenantcron.tenant AS t
            WHERE t.id = tenant AND t.status <> 'deprovisioned' FOR NO KEY UPDATE;
        IF of_schema IS NULL THEN
            RAISE lock_not_available USING MESSAGE = format('tenant %L has just gone', tenant);
        END IF;
        made := tenantcron.make_handler_role(login, 'LOGIN');
    END IF;
    FOR missing IN
        SELECT tenantcron.missing_handler_rights(
            to_regrole(quote_ident(group_role)), to_regrole(quote_ident(login)), of_schema
        )
    LOOP
        EXECUTE missing;
    END LOOP;
    IF NOT has_schema_privilege(login, of_schema, 'USAGE') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('%I may not grant rights on schema %I', current_user, of_schema),
            HINT = format(
                'Run as its owner: GRANT USAGE ON SCHEMA %1$I TO %2$I WITH GRANT OPTION;'
                ' GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %1$I TO %2$I'
                ' WITH GRANT OPTION',
                of_schema, current_user
            );
    END IF;
    IF EXISTS (
        SELECT FROM pg_db_role_setting AS s
        WHERE s.setrole = to_regrole(quote_ident(login)) AND s.setdatabase = ANY (places)
    ) THEN
        EXECUTE format('ALTER ROLE %I RESET ALL', login);
        EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET ALL', login, current_database());
    END IF;
    IF verifier LIKE 'SCRAM-SHA-256$%' THEN
        EXECUTE format('ALTER ROLE %I PASSWORD %L', login, verifier);
    END IF;
    IF EXISTS (
        SELECT FROM pg_roles AS r WHERE r.rolname = login AND r.rolvaliduntil = '-infinity'
    ) THEN
        EXECUTE format('ALTER ROLE %I LOGIN VALID UNTIL ''infinity''', login);
    END IF;
    RETURN made AND verifier IS NULL;
END
$function$;
-- Returns why the role is still there, null if it is gone. What it owns is data of the platform.
CREATE OR REPLACE FUNCTION tenantcron.drop_handler_role(tenant text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    login regrole := to_regrole(quote_ident(tenantcron.handler_role(tenant)));
BEGIN
    IF login IS NULL THEN
        RETURN NULL;
    ELSIF EXISTS (
        SELECT FROM pg_shdepend AS d
        WHERE
            d.refclassid = 'pg_authid'::regclass AND d.refobjid = login AND d.deptype = 'o'
            AND d.classid <> 'pg_default_acl'::regclass
    ) THEN
        -- A handler may have set a password that it knows. The date distinguishes this NOLOGIN from
        -- that of a DBA: the role logs in again if the tenant returns.
        EXECUTE format('ALTER ROLE %s NOLOGIN PASSWORD NULL VALID UNTIL ''-infinity''', login);
        RETURN 'it owns objects';
    END IF;
    EXECUTE format('GRANT %s TO CURRENT_USER', login);
    EXECUTE format('DROP OWNED BY %s', login);
    EXECUTE format('DROP ROLE %s', login);
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege OR dependent_objects_still_exist THEN
    RETURN SQLERRM;
END
$function$;
