-- The entity, the column of its id, and the columns that no record shows.
CREATE OR REPLACE FUNCTION tenantcron.record_secret() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - TG_ARGV[2:] END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - TG_ARGV[2:] END;
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
CREATE OR REPLACE TRIGGER webhook_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF url, event_types, tenant_ids, secret_ref, in_batches, disabled_at
    ON tenantcron.webhook
    FOR EACH ROW EXECUTE FUNCTION
        tenantcron.record_secret('webhook', 'name', 'url', 'secret_ref');
