"""Remove the tables of a tenant: only ours, and no objects that depend on them.

Our tables are dropped without CASCADE, so a view or a foreign key of the platform stops it. The
schema is dropped with them only if we created it and it contains nothing else. Remaining objects
are reported, never dropped (docs/decisions/0026).
"""

from psycopg.errors import DependentObjectsStillExist
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store import ddl, tenant_objects
from tenantcron.store.tenants import TenantRow
from tenantcron.tenants.errors import TenantError

_SHOWN = 3


async def remove_tables(connection: AsyncConnection, row: TenantRow) -> None:
    """Drop a tenant's tables, and its schema if it is ours and empty then."""
    try:
        await ddl.drop_tenant_tables(connection, row.schema_name)
    except DBAPIError as error:
        if not isinstance(error.orig, DependentObjectsStillExist):
            raise
        raise _in_use(row, error.orig.diag.message_detail or "") from error
    if not row.schema_adopted and not await _others(connection, row.schema_name):
        await ddl.drop_schema(connection, row.schema_name)


async def why_kept(connection: AsyncConnection, row: TenantRow) -> str | None:
    """Return why a tenant's schema still exists after its tables were dropped; None if not."""
    if not await ddl.has_schema(connection, row.schema_name):
        return None
    if row.schema_adopted:
        return f"schema `{row.schema_name}` is kept: tenantcron did not create it"
    others = await _others(connection, row.schema_name)
    return f"schema `{row.schema_name}` is kept: it also has {', '.join(others)}"


async def _others(connection: AsyncConnection, schema: str) -> list[str]:
    return await tenant_objects.objects_in(connection, schema, _SHOWN)


def _in_use(row: TenantRow, detail: str) -> TenantError:
    return TenantError(
        f"the tables of `{row.id}` in schema `{row.schema_name}` are in use: "
        f"{'; '.join(detail.splitlines())}. Drop what depends on them first. Nothing was changed"
    )
