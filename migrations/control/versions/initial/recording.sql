-- Who acts is what the transaction says; where it says nothing, somebody is at work by hand, and
-- the database user is named.
CREATE FUNCTION tenantcron.acting(
    OUT changed_by text, OUT actor_type text, OUT actor_source text,
    OUT authenticated boolean, OUT correlation_id uuid, OUT by_hand boolean
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $function$
BEGIN
    by_hand := coalesce(current_setting('tenantcron.actor', true), '') = '';
    correlation_id := nullif(current_setting('tenantcron.correlation_id', true), '')::uuid;
    IF by_hand THEN
        changed_by := session_user;
        actor_type := 'human';
        actor_source := 'sql';
        authenticated := false;
    ELSE
        changed_by := current_setting('tenantcron.actor');
        actor_type := current_setting('tenantcron.actor_type', true);
        actor_source := current_setting('tenantcron.actor_source', true);
        authenticated := coalesce(current_setting('tenantcron.authenticated', true), '') = 'true';
    END IF;
END
$function$;

-- One row of the control schema's audit, in the name of whoever acts.
CREATE FUNCTION tenantcron.put_on_record(
    entity_type text, entity_id text, operation text, before jsonb, after jsonb
) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog AS $function$
INSERT INTO tenantcron.audit_record (
    entity_type, entity_id, operation, changed_by, actor_type, actor_source, authenticated,
    correlation_id, before, after, tenant_id
)
SELECT
    put_on_record.entity_type, put_on_record.entity_id, put_on_record.operation, who.changed_by,
    who.actor_type, who.actor_source, who.authenticated, who.correlation_id,
    put_on_record.before, put_on_record.after,
    CASE put_on_record.entity_type
        WHEN 'tenant' THEN put_on_record.entity_id
        WHEN 'pause' THEN split_part(put_on_record.entity_id, '/', 1)
        WHEN 'api_token' THEN
            coalesce(put_on_record.after, put_on_record.before) ->> 'tenant_id'
    END
FROM tenantcron.acting() AS who;
$function$;

-- Row by row: a trigger that sees all rows of a statement cannot be bound to single columns.
CREATE FUNCTION tenantcron.record_tenant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
BEGIN
    PERFORM tenantcron.put_on_record(
        'tenant',
        coalesce(becomes, was) ->> 'id',
        CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        was,
        becomes
    );
    RETURN NULL;
END
$function$;
CREATE TRIGGER tenant_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF status, status_reason, max_schedules, max_concurrent, weight
    ON tenantcron.tenant
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_tenant();

-- All rows of a statement are recorded by one statement. Of a trigger's function every session has
-- a compiled copy per tenant, and whenever anybody creates a table, every session looks through
-- all plans that its copies keep. So this one keeps two, and leaves the work to functions that a
-- session has once.
CREATE FUNCTION tenantcron.record_schedules() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
DECLARE
    recorded bigint;
BEGIN
    EXECUTE tenantcron.recording(TG_TABLE_SCHEMA, TG_OP);
    GET DIAGNOSTICS recorded = ROW_COUNT;
    PERFORM tenantcron.notice_change_by_hand(TG_TABLE_SCHEMA, recorded);
    RETURN NULL;
END
$function$;
CREATE FUNCTION tenantcron.recording(of_schema text, operation text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $function$
-- A row whose id was changed is not the row that it was: one is gone, another is new.
BEGIN
    RETURN format(
        'INSERT INTO %I.audit_record (entity_type, entity_id, operation, changed_by, actor_type,'
        ' actor_source, authenticated, correlation_id, before, after)'
        ' SELECT ''schedule'', changed.name, changed.operation, who.changed_by, who.actor_type,'
        ' who.actor_source, who.authenticated, who.correlation_id, changed.before, changed.after'
        ' FROM (%s) AS changed (name, operation, before, after), tenantcron.acting() AS who',
        of_schema,
        CASE operation
            WHEN 'INSERT' THEN
                'SELECT schedule_name, ''create'', NULL::jsonb, to_jsonb(becomes) FROM becomes'
            WHEN 'DELETE' THEN
                'SELECT schedule_name, ''delete'', to_jsonb(was), NULL::jsonb FROM was'
            ELSE
                'SELECT coalesce(becomes.schedule_name, was.schedule_name),'
                ' CASE WHEN becomes.id IS NULL THEN ''delete'''
                ' WHEN was.id IS NULL THEN ''create'' ELSE ''update'' END,'
                ' CASE WHEN was.id IS NOT NULL THEN to_jsonb(was) END,'
                ' CASE WHEN becomes.id IS NOT NULL THEN to_jsonb(becomes) END'
                ' FROM was FULL JOIN becomes ON was.id = becomes.id'
                ' ORDER BY becomes.id IS NOT NULL, becomes.schedule_name'
        END
    );
END
$function$;
CREATE FUNCTION tenantcron.notice_change_by_hand(of_schema text, changed bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
-- An apply raises the revision itself, once; whoever changes schedules by hand would forget.
DECLARE
    noticed text;
BEGIN
    IF changed > 0 AND (tenantcron.acting()).by_hand THEN
        UPDATE tenantcron.tenant SET schedule_revision = schedule_revision + 1
            WHERE schema_name = of_schema RETURNING id INTO noticed;
        PERFORM pg_notify('tenantcron_schedules', noticed);
    END IF;
END
$function$;
CREATE FUNCTION tenantcron.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = format('%I.%I: TRUNCATE is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME),
        HINT = 'It would leave no record of what was there; use DELETE.';
END
$function$;
