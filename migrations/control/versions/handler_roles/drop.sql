-- Returns why the role is still there, null if it is gone. What it owns is data of the platform.
CREATE FUNCTION tenantcron.drop_handler_role(tenant text DEFAULT NULL) RETURNS text
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
        -- A handler may have set a password that it knows.
        EXECUTE format('ALTER ROLE %s NOLOGIN PASSWORD NULL', login);
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
