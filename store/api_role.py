"""The role that requests of the API read as, so that row-level security holds for them.

The owner of the tables ignores row-level security, so a request takes on `tenantcron_api` for its
transaction. A role belongs to the whole server. `migrate` makes it where that is allowed, and opens
to it what it may read; `tenants` is whom that is still to be done for.
"""

from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_ENSURE = text("SELECT tenantcron.ensure_api_role()")
_USABLE = text(
    "SELECT coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER')"
    " AND has_schema_privilege(oid, 'tenantcron', 'USAGE')"
    " FROM pg_roles WHERE rolname = 'tenantcron_api'), false)"
)
# Only schemas of ours that are there, and of which we may give rights.
_CLOSED = text(
    "SELECT t.schema_name FROM tenantcron.tenant AS t"
    " JOIN pg_namespace AS n ON n.nspname = t.schema_name"
    " WHERE NOT has_schema_privilege('tenantcron_api', n.oid, 'USAGE')"
    " AND pg_has_role(current_user, n.nspowner, 'USAGE') ORDER BY t.schema_name"
)
_OPEN = text("SELECT tenantcron.open_to_api(s) FROM unnest(CAST(:schemas AS text[])) AS s")


async def ensure(connection: AsyncConnection) -> bool:
    """Make the role if it is missing and may be made; return whether it is there."""
    return bool(await connection.scalar(_ENSURE))


async def is_usable(connection: AsyncConnection) -> bool:
    """Whether the role is there and may be taken on."""
    return bool(await connection.scalar(_USABLE))


async def closed_schemas(connection: AsyncConnection) -> list[str]:
    """Return the tenants' schemas that the role cannot read yet."""
    return list(await connection.scalars(_CLOSED))


async def open_schemas(connection: AsyncConnection, schemas: Collection[str]) -> None:
    """Let the role read the schemas; what it sees in them is up to row-level security."""
    await connection.execute(_OPEN, {"schemas": list(schemas)})
