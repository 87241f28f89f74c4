-- What the two roles lack and the owner of this function may grant, as statements. Views are
-- granted to be read only: through some of them other tables could be written.
CREATE FUNCTION tenantcron.missing_handler_rights(group_role oid, login oid, of_schema text)
    RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $function$
-- By their dependency, for which there is an index: pg_class has the tables of all tenants.
WITH relation AS MATERIALIZED (
    SELECT c.oid AS id, c.relname, c.relkind, c.relacl
    FROM pg_namespace AS n
    JOIN pg_depend AS d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
    JOIN pg_class AS c ON c.oid = d.objid
    WHERE n.nspname = of_schema AND d.classid = 'pg_class'::regclass
)
SELECT format('GRANT CONNECT ON DATABASE %I TO %s', current_database(), group_role::regrole)
WHERE NOT has_database_privilege(group_role, current_database(), 'CONNECT')
    AND has_database_privilege(current_database(), 'CONNECT WITH GRANT OPTION')
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA tenantcron TO %s', group_role::regrole)
WHERE NOT has_schema_privilege(group_role, 'tenantcron', 'USAGE')
UNION ALL
SELECT format('GRANT EXECUTE ON FUNCTION tenantcron.acting() TO %s', group_role::regrole)
WHERE NOT has_function_privilege(group_role, 'tenantcron.acting()', 'EXECUTE')
UNION ALL
SELECT format('GRANT %s TO %s', group_role::regrole, login::regrole)
WHERE NOT pg_has_role(login, group_role, 'MEMBER')
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA %I TO %s', of_schema, login::regrole)
WHERE NOT has_schema_privilege(login, of_schema, 'USAGE')
    AND has_schema_privilege(of_schema, 'USAGE WITH GRANT OPTION')
UNION ALL
SELECT format('GRANT %s ON %s TO %s', string_agg(wanted, ', '), r.id::regclass, login::regrole)
FROM
    relation AS r,
    unnest(
        CASE WHEN r.relkind IN ('v', 'm') THEN ARRAY['SELECT']
        ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END
    ) AS wanted
WHERE
    r.relkind IN ('r', 'p', 'f', 'v', 'm')
    AND r.relname NOT IN ('tenant_schedule', 'audit_record', 'schema_version')
    -- A table that the role has any right on is as the platform wants it: it may have revoked others.
    AND NOT EXISTS (SELECT FROM aclexplode(r.relacl) AS a WHERE a.grantee = login)
    AND NOT has_table_privilege(login, r.id, wanted)
    AND has_table_privilege(r.id, wanted || ' WITH GRANT OPTION')
GROUP BY r.id
UNION ALL
SELECT format('GRANT USAGE ON SEQUENCE %s TO %s', r.id::regclass, login::regrole)
FROM relation AS r
WHERE
    -- The functions fail for what is no sequence, and a CASE keeps the order.
    CASE WHEN r.relkind = 'S' THEN
        NOT has_sequence_privilege(login, r.id, 'USAGE')
        AND has_sequence_privilege(r.id, 'USAGE WITH GRANT OPTION')
    END
    -- The sequence of an identity column needs no grant, and that of the audit gets none.
    AND NOT EXISTS (
        SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = r.id AND d.deptype = 'i'
    );
$function$;
-- Makes the role that a tenant's handlers log in as, and grants what it lacks. Cheap if nothing is
-- missing. `verifier` is the password as SCRAM has it; returns whether it made a role without one.
-- Without a tenant: only the role that all of them are in.
CREATE FUNCTION tenantcron.ensure_handler_role(
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
            HINT = 'Give the tenant a schema of its own, or grant rights on single tables to its role';
    END IF;
    IF verifier IS NULL
        AND to_regrole(quote_ident(group_role)) IS NOT NULL
        AND to_regrole(quote_ident(login)) IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM tenantcron.missing_handler_rights(
                to_regrole(quote_ident(group_role)), to_regrole(quote_ident(login)), of_schema
            )
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
    IF verifier LIKE 'SCRAM-SHA-256$%' THEN
        EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', login, verifier);
    END IF;
    RETURN made AND verifier IS NULL;
END
$function$;
CREATE FUNCTION tenantcron.make_handler_role(login text, attribute text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    is_privileged boolean;
BEGIN
    SELECT
        r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
    INTO is_privileged FROM pg_roles AS r WHERE r.rolname = login;
    IF is_privileged THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('role %I has attributes that no handler may have', login),
            HINT = format('Run as a superuser: ALTER ROLE %I NOSUPERUSER NOCREATEROLE NOCREATEDB'
                          ' NOREPLICATION NOBYPASSRLS', login);
    ELSIF is_privileged IS NOT NULL THEN
        RETURN false;
    ELSIF NOT (
        SELECT r.rolsuper OR r.rolcreaterole FROM pg_roles AS r WHERE r.rolname = current_user
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('role %I may not create roles', current_user),
            HINT = format('Run: ALTER ROLE %I CREATEROLE', current_user);
    END IF;
    EXECUTE format('CREATE ROLE %I %s', login, attribute);
    RETURN true;
END
$function$;
