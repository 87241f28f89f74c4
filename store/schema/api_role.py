"""The role of API requests, so that row-level security applies to them.

Row-level security does not apply to the owner of the tables, so a request switches to
`tenantcron_api` for its transaction. Roles belong to the server, not to a database. `migrate`
creates the role if it may, and grants it what it may read.
"""

from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

NAME = "tenantcron_api"

_ENSURE = text("SELECT tenantcron.ensure_api_role()")
_EXISTS = text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api')")
# In any database of the server: this catalog is shared.
_IS_USED = text(
    "SELECT EXISTS (SELECT FROM pg_shdepend AS d JOIN pg_roles AS r ON r.oid = d.refobjid"
    " WHERE d.refclassid = 'pg_authid'::regclass AND r.rolname = 'tenantcron_api')"
)
_DROP = text("DROP ROLE tenantcron_api")
# Since PostgreSQL 16 a role that created another may administer it, but not switch to it.
_MAY_SET_ROLE = (
    "pg_has_role(current_user, oid, CASE"
    " WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)"
)
_GRANT = text(
    "DO $$ BEGIN GRANT tenantcron_api TO CURRENT_USER;"
    " EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
)
_CAN_SET_ROLE = text(f"SELECT {_MAY_SET_ROLE} FROM pg_roles WHERE rolname = 'tenantcron_api'")  # noqa: S608 -- a constant
_USABLE = text(
    f"SELECT coalesce((SELECT {_MAY_SET_ROLE}"  # noqa: S608 -- as above
    " AND has_schema_privilege(oid, 'tenantcron', 'USAGE')"
    " FROM pg_roles WHERE rolname = 'tenantcron_api'), false)"
)
_UNREADABLE = text(
    "SELECT t.schema_name FROM tenantcron.tenant AS t"
    " JOIN pg_namespace AS n ON n.nspname = t.schema_name"
    " JOIN pg_roles AS r ON r.rolname = 'tenantcron_api'"
    " JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'"
    "   AND c.relname IN ('tenant_schedule', 'audit_record')"
    " WHERE NOT (has_schema_privilege(r.oid, n.oid, 'USAGE')"
    "   AND has_table_privilege(r.oid, c.oid, 'SELECT'))"
    " GROUP BY t.schema_name ORDER BY t.schema_name"
)
# Schemas with both tables on which we may grant the missing privileges.
_GRANTABLE = text(
    "SELECT n.nspname FROM pg_namespace AS n"
    " JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'"
    "   AND c.relname IN ('tenant_schedule', 'audit_record')"
    " WHERE n.nspname = ANY (CAST(:schemas AS text[]))"
    "   AND pg_has_role(current_user, c.relowner, 'USAGE')"
    "   AND (has_schema_privilege('tenantcron_api', n.oid, 'USAGE')"
    "     OR has_schema_privilege(n.oid, 'USAGE WITH GRANT OPTION'))"
    " GROUP BY n.nspname HAVING count(*) = 2 ORDER BY n.nspname"
)
_OPEN = text("SELECT tenantcron.open_to_api(s) FROM unnest(CAST(:schemas AS text[])) AS s")


async def ensure(connection: AsyncConnection) -> bool:
    """Create the role if it is missing and we may; return whether it exists."""
    exists = bool(await connection.scalar(_ENSURE))
    if exists and not await connection.scalar(_CAN_SET_ROLE):
        await connection.execute(_GRANT)
    return exists


async def exists(connection: AsyncConnection) -> bool:
    """Whether the role exists."""
    return bool(await connection.scalar(_EXISTS))


async def drop_unused(connection: AsyncConnection) -> bool:
    """Drop the role unless a database of the server uses it; return whether it is gone."""
    if not await exists(connection):
        return True
    if await connection.scalar(_IS_USED):
        return False
    await connection.execute(_DROP)
    return True


async def is_usable(connection: AsyncConnection) -> bool:
    """Whether the role exists and we may switch to it."""
    return bool(await connection.scalar(_USABLE))


async def unreadable_schemas(connection: AsyncConnection) -> list[str]:
    """Return the tenant schemas that the role cannot read; empty if there is no such role."""
    return list(await connection.scalars(_UNREADABLE))


async def closed_schemas(connection: AsyncConnection) -> list[str]:
    """Return the tenant schemas that the role cannot read, but on which we may grant that."""
    schemas = await unreadable_schemas(connection)
    return list(await connection.scalars(_GRANTABLE, {"schemas": schemas})) if schemas else []


async def open_schemas(connection: AsyncConnection, schemas: Collection[str]) -> None:
    """Let the role read the schemas; row-level security still decides about rows."""
    await connection.execute(_OPEN, {"schemas": list(schemas)})
