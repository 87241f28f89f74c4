"""Tenants inserted directly into a database, for the tests of migrations."""

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.migrations.history import history
from tenantcron.store.schema import tables
from tenantcron.store.schema.tenant_tables import create_tenant_schema


async def add_row(connection: AsyncConnection, tenant: str, status: str = "active") -> str:
    """Register a tenant without creating its schema; return the name of the schema."""
    schema = f"tenant_{tenant}"
    times = {"created_at": func.now(), "updated_at": func.now()}
    values = {"id": tenant, "schema_name": schema, "status": status}
    await connection.execute(tables.tenant.insert().values(**values, **times))
    return schema


async def add_current(connection: AsyncConnection, tenant: str) -> str:
    """Add a tenant whose schema is up to date."""
    schema = await add_row(connection, tenant)
    await create_tenant_schema(connection, schema)
    return schema


async def add_behind(connection: AsyncConnection, tenant: str) -> str:
    """Add a tenant whose schema has no migrations yet."""
    schema = await add_current(connection, tenant)
    await connection.run_sync(history("tenant").downgrade, schema)
    return schema
