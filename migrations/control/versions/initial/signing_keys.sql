-- Which keys sign is on record like everything that people change; the private key is not.
CREATE TABLE tenantcron.signing_key (
    kid varchar(64) NOT NULL,
    algorithm varchar(16) NOT NULL,
    sealed bytea,
    sealed_by varchar(32),
    created_at timestamptz NOT NULL,
    active_from timestamptz NOT NULL,
    retired_at timestamptz,
    CONSTRAINT signing_key_pkey PRIMARY KEY (kid),
    CONSTRAINT signing_key_algorithm_check CHECK (algorithm IN ('EdDSA', 'ES256')),
    CONSTRAINT signing_key_sealed_check CHECK ((sealed IS NULL) = (sealed_by IS NULL)),
    CONSTRAINT signing_key_retired_check CHECK (sealed IS NOT NULL OR retired_at IS NOT NULL)
);
-- The entity, the column of its id, and the column that stays where it is: a record is for people.
CREATE FUNCTION tenantcron.record_secret() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - TG_ARGV[2] END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - TG_ARGV[2] END;
BEGIN
    PERFORM tenantcron.put_on_record(
        TG_ARGV[0],
        coalesce(becomes, was) ->> TG_ARGV[1],
        CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        was,
        becomes
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER signing_key_recorded
    AFTER INSERT OR UPDATE OR DELETE ON tenantcron.signing_key
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('signing_key', 'kid', 'sealed');
