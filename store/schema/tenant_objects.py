"""The objects of a schema besides a tenant's tables, and whether their names are free.

An adopted schema contains other tables. tenantcron adds its own: their names must be free, and
removing them must not affect other objects.
"""

from collections.abc import Iterator
from functools import cache

from sqlalchemy import Index, PrimaryKeyConstraint, Table, UniqueConstraint, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.schema.tables import per_tenant
from tenantcron.store.schema.versions import VERSION_TABLE

# Tables, indexes and sequences share a namespace in a schema. Types have another one, in which each
# table has a row type with its name.
_TAKEN = text(
    "SELECT c.relname FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = ANY (CAST(:names AS text[]))"
    " UNION SELECT t.typname FROM pg_catalog.pg_type AS t"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace"
    " WHERE n.nspname = :schema AND t.typname = ANY (CAST(:names AS text[])) ORDER BY 1"
)
_HAS_TABLES = text(
    "SELECT count(*) = cardinality(CAST(:names AS text[])) FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = ANY (CAST(:names AS text[])) AND c.relkind = 'r'"
)
_WITH_TABLES = text(
    "SELECT t.schema_name FROM tenantcron.tenant AS t"
    " JOIN pg_catalog.pg_namespace AS n ON n.nspname = t.schema_name"
    " JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'"
    "   AND c.relname = ANY (CAST(:names AS text[]))"
    " GROUP BY t.schema_name HAVING count(*) = cardinality(CAST(:names AS text[]))"
)
# All objects of a schema depend on it. Parts of another object, such as an index of a table, are
# not listed.
_OBJECTS = text(
    "SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)"
    " FROM pg_catalog.pg_depend AS d"
    " WHERE d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.deptype = 'n'"
    " AND d.refobjid = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = :schema)"
    " ORDER BY 1 LIMIT :limit"
)
TENANT_TABLES = (*sorted(table.name for table in per_tenant.tables.values()), VERSION_TABLE)


async def taken_names(connection: AsyncConnection, schema: str) -> list[str]:
    """Return the names of a tenant's objects that already exist in a schema."""
    return list(await connection.scalars(_TAKEN, {"schema": schema, "names": list(_names())}))


async def has_tenant_tables(connection: AsyncConnection, schema: str) -> bool:
    """Whether the schema has a tenant's tables."""
    found = await connection.scalar(_HAS_TABLES, {"schema": schema, "names": list(TENANT_TABLES)})
    return bool(found)


async def schemas_with_tables(connection: AsyncConnection) -> set[str]:
    """Return the schemas of registered tenants that have a tenant's tables."""
    return set(await connection.scalars(_WITH_TABLES, {"names": list(TENANT_TABLES)}))


async def objects_in(connection: AsyncConnection, schema: str, limit: int) -> list[str]:
    """Return descriptions of some objects of a schema, as the database writes them."""
    return list(await connection.scalars(_OBJECTS, {"schema": schema, "limit": limit}))


@cache
def _names() -> tuple[str, ...]:
    own = (name for table in per_tenant.tables.values() for name in _names_of(table))
    return tuple(sorted({*own, VERSION_TABLE, f"{VERSION_TABLE}_pkc"}))


def _names_of(table: Table) -> Iterator[str]:
    yield table.name
    for part in (*table.constraints, *table.indexes):
        # Others, such as check constraints, are not relations.
        if isinstance(part, PrimaryKeyConstraint | UniqueConstraint | Index):
            yield str(part.name)
