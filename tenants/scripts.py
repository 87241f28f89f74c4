"""The script that creates or migrates one tenant's tables, to be run by another role."""

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import DEFAULT_PATTERN, SchemaName, SchemaPattern
from tenantcron.migrations.script import SchemaState, tenant_upgrade
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants
from tenantcron.store.schema import tenant_objects
from tenantcron.store.schema.tenant_tables import has_schema
from tenantcron.store.schema.tenant_versions import version_in
from tenantcron.store.schema.versions import TENANT_VERSION, require_migrated
from tenantcron.tenants.creation import require_room


async def tenant_sql(
    database: Database,
    tenant: TenantId,
    schema: SchemaName | None,
    pattern: SchemaPattern | None,
) -> str | None:
    """Return the script for a tenant, registered or not; None if its tables are up to date.

    A tenant that is not registered gets what `tenant create` would create, in the given schema or
    in the one that the pattern names. `tenant create --schema` then only registers it.
    """
    async with database.transaction() as connection:
        await require_migrated(connection)
        row = await tenants.find(connection, tenant)
        if row is not None and schema not in (None, row.schema_name):
            raise UsageError(f"the schema of `{tenant}` is `{row.schema_name}`: leave out --schema")
        name = row.schema_name if row else schema or (pattern or DEFAULT_PATTERN).name_for(tenant)
        state = await _state(connection, name)
    is_current = state.version is not None and state.version >= TENANT_VERSION
    return None if is_current else tenant_upgrade(tenant, state)


async def _state(connection: AsyncConnection, schema: str) -> SchemaState:
    if not await tenant_objects.has_tenant_tables(connection, schema):
        await require_room(connection, schema)
        return SchemaState(schema, await has_schema(connection, schema), has_versions=False)
    return SchemaState(schema, version=await version_in(connection, schema))
