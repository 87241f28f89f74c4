"""Which version every tenant's schema is at, without a query per tenant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy import Connection, Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.versions import TENANT_VERSION

# More tables in one statement cost more locks than they save round trips.
_BATCH = 50
# One row per tenant, with what is there of its schema.
_TENANTS = text(
    "SELECT t.id, t.schema_name, t.status, n.oid AS schema_oid, c.oid AS version_oid"
    " FROM tenantcron.tenant AS t"
    " LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = t.schema_name"
    " LEFT JOIN pg_catalog.pg_class AS c"
    "   ON c.relnamespace = n.oid AND c.relname = 'schema_version' AND c.relkind = 'r'"
    " ORDER BY t.id"
)
_VERSION = SQL("SELECT {name}, version_num FROM {schema}.schema_version")

TenantRow = Row[str, str, str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class TenantVersion:
    """A tenant's schema and where it stands."""

    tenant: str
    schema: str
    # None: before the first migration.
    version: str | None
    # Why it cannot be migrated at all.
    broken: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether there is nothing left to migrate."""
        return self.version is not None and self.version >= TENANT_VERSION


async def tenant_versions(connection: AsyncConnection) -> list[TenantVersion]:
    """Return where all tenants stand; those whose schema went with them are left out."""
    rows = (await connection.execute(_TENANTS)).all()
    versions = await _versions(connection, [row.schema_name for row in rows if row.version_oid])
    return [
        TenantVersion(row.id, row.schema_name, versions.get(row.schema_name), _broken(row))
        for row in rows
        if row.schema_oid or row.status != "deprovisioned"
    ]


async def version_in(connection: AsyncConnection, schema: str) -> str | None:
    """Return the version of one tenant's schema."""
    return (await _versions(connection, [schema])).get(schema)


async def _versions(connection: AsyncConnection, schemas: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in _statements(schemas):
        found |= await connection.run_sync(_read, statement)
    return found


def _statements(schemas: Sequence[str]) -> Iterator[str]:
    """One statement for each batch of schemas."""
    for start in range(0, len(schemas), _BATCH):
        parts = [_version_of(schema) for schema in schemas[start : start + _BATCH]]
        yield SQL(" UNION ALL ").join(parts).as_string()


def _version_of(schema: str) -> Composed:
    return _VERSION.format(name=Literal(schema), schema=Identifier(schema))


def _read(connection: Connection, statement: str) -> dict[str, str]:
    rows = connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    return {row[0]: row[1] for row in rows}


def _broken(row: TenantRow) -> str | None:
    if not row.schema_oid:
        return f"its schema {row.schema_name} is missing: restore it, or deprovision the tenant"
    if not row.version_oid:
        return f"its schema {row.schema_name} has no schema_version: tenantcron did not make it"
    return None
