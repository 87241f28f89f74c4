"""The schema of a tenant: created by us, or adopted from the platform.

Which schema, and who owns it:

| requested                      | schema is missing | schema exists                            |
|--------------------------------|-------------------|------------------------------------------|
| by name (`--schema`, a source) | refused           | adopted                                  |
| by the setting `schema_pattern`| created           | adopted                                  |
| by the default pattern         | created           | refused: nothing says that it may be used|

Adopting adds our tables and changes nothing else. If a name that we need is taken, nothing is
written. If our tables exist already, complete and at the current version, because the platform's
own tool created them or a backup was restored, the tenant is registered and nothing is created. The
row stores that the schema was adopted, so objects of the platform are never dropped
(docs/decisions/0026).

Everything happens in the caller's transaction. A schema has at most one tenant: the table has a
unique constraint, and the second of two concurrent requests waits and is refused.
"""

from psycopg.errors import DuplicateSchema
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import DEFAULT_PATTERN, SchemaName, SchemaPattern
from tenantcron.core.words import listed
from tenantcron.migrations.expected import expected_objects
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import SchemaTakenError, TenantRow
from tenantcron.store.schema import tenant_objects, tenant_tables
from tenantcron.store.schema.catalog import missing_objects
from tenantcron.store.schema.versions import TENANT_VERSION
from tenantcron.tenants.errors import TenantError

_SHOWN = 5


async def create_tenant(
    connection: AsyncConnection, tenant: TenantId, pattern: SchemaPattern | None = None
) -> TenantRow | None:
    """Create a tenant on the schema that the pattern names; None if the tenant exists."""
    schema = (pattern or DEFAULT_PATTERN).name_for(tenant)
    row = await _add(connection, tenant, schema)
    if row is None:
        return None
    if not row.schema_adopted:
        await _create_schema(connection, row.schema_name)
    elif pattern is None:
        raise _belongs_to_no_tenant(tenant, schema)
    else:
        return await _adopt(connection, row)
    return row


async def create_tenant_on(
    connection: AsyncConnection, tenant: TenantId, schema: SchemaName
) -> TenantRow | None:
    """Create a tenant on an existing schema; None if the tenant exists."""
    row = await _add(connection, tenant, schema)
    if row is None:
        return None
    if not row.schema_adopted:
        raise TenantError(
            f"schema `{schema}` does not exist: create it first, or create the tenant without "
            "naming a schema"
        )
    return await _adopt(connection, row)


async def _add(
    connection: AsyncConnection, tenant: TenantId, schema: SchemaName
) -> TenantRow | None:
    try:
        return await tenants.add(connection, tenant, schema)
    except SchemaTakenError as error:
        raise TenantError(str(error)) from error


async def _create_schema(connection: AsyncConnection, schema: str) -> None:
    try:
        await tenant_tables.create_tenant_schema(connection, schema)
    except ProgrammingError as error:
        if not isinstance(error.orig, DuplicateSchema):
            raise
        message = f"schema `{schema}` was created by another session at this moment"
        raise TenantError(f"{message}: try again") from error


async def require_room(connection: AsyncConnection, schema: str) -> None:
    """Raise a TenantError if a schema already uses a name that we need."""
    taken = await tenant_objects.taken_names(connection, schema)
    if taken:
        raise TenantError(
            f"schema `{schema}` cannot be adopted: it has {listed(taken, _SHOWN)} already, and "
            "tenantcron needs these names. Rename them, or use another schema. Nothing was changed"
        )


async def _adopt(connection: AsyncConnection, row: TenantRow) -> TenantRow:
    """Add our tables to the tenant's schema, or verify that they are complete."""
    if not await tenant_objects.has_tenant_tables(connection, row.schema_name):
        await require_room(connection, row.schema_name)
        await tenant_tables.add_tenant_tables(connection, row.schema_name)
        return row
    await _require_complete(connection, row)
    # The tables may contain schedules that no scheduler has seen.
    await tenants.raise_revision(connection, row.id)
    return row


async def _require_complete(connection: AsyncConnection, row: TenantRow) -> None:
    """Raise a TenantError unless existing tables are exactly what we would create."""
    expected = expected_objects("tenant")
    missing = await missing_objects(connection, [row.schema_name], expected)
    if missing:
        lines = [line for _, line in missing]
        raise TenantError(
            f"schema `{row.schema_name}` cannot be adopted: its tables are not those of "
            f"tenantcron {TENANT_VERSION}; missing or different: {listed(lines, _SHOWN)}. "
            f"`tenantcron migrate --sql --tenant {row.id} --schema {row.schema_name}` prints what "
            "older tables of tenantcron lack. Nothing was changed"
        )


def _belongs_to_no_tenant(tenant: TenantId, schema: str) -> TenantError:
    return TenantError(
        f"schema `{schema}` exists already and belongs to no tenant: adopt it with "
        f"`tenantcron tenant create {tenant} --schema {schema}`, or set schema_pattern"
    )
