"""Adopted schemas: tenants whose schema the platform made and named.

The release before this one creates every schema that it registers, which is what the column's
default says. It finds schemas by `schema_name`, as this one does.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0006_adopted_schemas"
down_revision = "0005_failovers"

_ADD = """
ALTER TABLE tenantcron.tenant ADD COLUMN schema_adopted boolean NOT NULL DEFAULT false;
-- Of a tenant that the caller sees, else null. A function of its own, so that the one below stays a
-- plain expression: the planner puts that in place of the call, and only a caller that is bound to
-- one tenant pays for the lookup.
CREATE FUNCTION tenantcron.schema_of(tenant text) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT t.schema_name FROM tenantcron.tenant AS t WHERE t.id = tenant);
CREATE OR REPLACE FUNCTION tenantcron.sees_schema(tenant_schema text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) = '*'
        OR tenantcron.schema_of(current_setting('tenantcron.tenant', true)) = tenant_schema;
-- An adopted schema may belong to a role that grants nothing through us. Its owner then grants the
-- usage; `migrate --check` says where that is missing.
CREATE OR REPLACE FUNCTION tenantcron.open_to_api(of_schema text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        IF NOT has_schema_privilege('tenantcron_api', of_schema, 'USAGE')
            AND has_schema_privilege(of_schema, 'USAGE WITH GRANT OPTION')
        THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO tenantcron_api', of_schema);
        END IF;
        EXECUTE format(
            'GRANT SELECT ON %1$I.tenant_schedule, %1$I.audit_record TO tenantcron_api', of_schema
        );
    END IF;
END
$function$;
CREATE FUNCTION tenantcron.close_to_api(of_schema text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api')
        AND has_schema_privilege(of_schema, 'USAGE WITH GRANT OPTION')
    THEN
        EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM tenantcron_api', of_schema);
    END IF;
END
$function$;
"""
_DROP = """
CREATE OR REPLACE FUNCTION tenantcron.sees_schema(tenant_schema text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN current_user <> 'tenantcron_api'
        OR current_setting('tenantcron.tenant', true) = '*'
        OR 'tenant_' || current_setting('tenantcron.tenant', true) = tenant_schema;
DROP FUNCTION tenantcron.schema_of(text), tenantcron.close_to_api(text);
ALTER TABLE tenantcron.tenant DROP COLUMN schema_adopted;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the column, and let rights follow the name that a tenant's row has."""
    run_script(op.get_bind(), _ADD)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Let rights follow the default name again."""
    run_script(op.get_bind(), _DROP)
