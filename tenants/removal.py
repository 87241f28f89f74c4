"""Remove the tables of a tenant: only ours, and no objects that depend on them.

Our tables are dropped without CASCADE, so a view or a foreign key of the platform stops it. The
schema is dropped with them only if we created it and it contains nothing else. Remaining objects
are reported, never dropped (docs/decisions/0026). The role of the tenant's handlers is dropped as
well, unless it owns something.
"""

from psycopg.errors import DependentObjectsStillExist
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema import handler_roles, tenant_objects, tenant_tables
from tenantcron.tenants.errors import TenantError

_SHOWN = 3


async def remove_tables(connection: AsyncConnection, row: TenantRow) -> None:
    """Drop a tenant's tables, and its schema if it is ours and empty then."""
    try:
        await tenant_tables.drop_tenant_tables(connection, row.schema_name)
    except DBAPIError as error:
        if not isinstance(error.orig, DependentObjectsStillExist):
            raise
        raise _in_use(row, error.orig.diag.message_detail or "") from error
    if not row.schema_adopted and not await _others(connection, row.schema_name):
        await tenant_tables.drop_schema(connection, row.schema_name)
    await handler_roles.drop(connection, row.id)


async def what_is_kept(connection: AsyncConnection, row: TenantRow) -> list[str]:
    """Return what still exists after a tenant's tables were dropped, and why."""
    kept = []
    if await tenant_tables.has_schema(connection, row.schema_name):
        others = await _others(connection, row.schema_name)
        reason = "tenantcron did not create it" if row.schema_adopted else ""
        reason = reason or f"it also has {', '.join(others)}"
        kept.append(f"schema `{row.schema_name}` is kept: {reason}")
    role = await handler_roles.find(connection, row.id)
    if role is not None:
        kept.append(
            f"role `{role}` is kept: it owns objects, or has rights that only others can revoke. "
            f'Run DROP OWNED BY "{role}" and DROP ROLE "{role}" when they are not needed'
        )
    return kept


async def _others(connection: AsyncConnection, schema: str) -> list[str]:
    return await tenant_objects.objects_in(connection, schema, _SHOWN)


def _in_use(row: TenantRow, detail: str) -> TenantError:
    return TenantError(
        f"the tables of `{row.id}` in schema `{row.schema_name}` are in use: "
        f"{'; '.join(detail.splitlines())}. Drop what depends on them first. Nothing was changed"
    )
