"""The scripts that would bring a database up to date, computed without changing it."""

from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.migrations.script import SchemaState, control_script, tenant_upgrade
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.tables import CONTROL_SCHEMA
from tenantcron.store.schema.tenant_tables import has_schema
from tenantcron.store.schema.tenant_versions import TenantVersion, tenant_versions
from tenantcron.store.schema.versions import CONTROL_VERSION, control_version, has_control_versions


async def pending_control(database: Database) -> str | None:
    """Return the script for the control schema, None if it is up to date."""
    async with database.transaction() as connection:
        state = await _control_state(connection)
    is_current = state.version is not None and state.version >= CONTROL_VERSION
    return None if is_current else control_script(state)


async def pending_tenants(database: Database) -> AsyncIterator[tuple[TenantVersion, str | None]]:
    """Yield each outdated tenant with its script; None if it cannot have one."""
    async with database.transaction() as connection:
        if not await has_control_versions(connection):
            return
    for tenant in await tenant_versions(database):
        if tenant.broken is not None:
            yield tenant, None
        elif not tenant.is_current:
            state = SchemaState(tenant.schema, version=tenant.version)
            yield tenant, tenant_upgrade(tenant.tenant, state)


async def _control_state(connection: AsyncConnection) -> SchemaState:
    return SchemaState(
        CONTROL_SCHEMA,
        is_there=await has_schema(connection, CONTROL_SCHEMA),
        has_versions=await has_control_versions(connection),
        version=await control_version(connection),
    )
