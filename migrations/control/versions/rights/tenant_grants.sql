-- Rights in a tenant's schema follow those on the manifests of all tenants. A role that reads these
-- may read schedules and their audit, and one that adds versions may change schedules. So no role
-- needs default privileges, which would open new tables of the control schema as well. Where the
-- schema is another role's, that role grants its use.
CREATE OR REPLACE FUNCTION tenantcron.open_to_api(of_schema text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    readers text;
    writers text;
    users text;
BEGIN
    SELECT
        string_agg(DISTINCT quote_ident(r.rolname), ', ')
            FILTER (WHERE a.privilege_type = 'SELECT'),
        string_agg(DISTINCT quote_ident(r.rolname), ', ')
            FILTER (WHERE a.privilege_type = 'INSERT'),
        string_agg(DISTINCT quote_ident(r.rolname), ', ')
            FILTER (WHERE NOT has_schema_privilege(r.oid, of_schema, 'USAGE'))
    INTO readers, writers, users
    FROM pg_class AS c
    CROSS JOIN aclexplode(c.relacl) AS a
    JOIN pg_roles AS r ON r.oid = a.grantee
    WHERE
        c.oid = 'tenantcron.manifest_version'::regclass
        AND a.privilege_type IN ('SELECT', 'INSERT') AND a.grantee <> c.relowner;
    IF users IS NOT NULL AND has_schema_privilege(of_schema, 'USAGE WITH GRANT OPTION') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %s', of_schema, users);
    END IF;
    IF readers IS NOT NULL THEN
        EXECUTE format(
            'GRANT SELECT ON %1$I.tenant_schedule, %1$I.audit_record, %1$I.schema_version TO %2$s',
            of_schema, readers
        );
    END IF;
    IF writers IS NOT NULL THEN
        EXECUTE format(
            'GRANT INSERT, UPDATE, DELETE ON %I.tenant_schedule TO %s', of_schema, writers
        );
        EXECUTE format('GRANT INSERT ON %I.audit_record TO %s', of_schema, writers);
    END IF;
END
$function$;
