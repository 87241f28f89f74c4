"""The versions of all tenant schemas, without a query per tenant."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy import Connection, Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.backends import replace_connection
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.batches import SCHEMAS_A_STATEMENT, Batch, read_in_batches
from tenantcron.store.schema.versions import TENANT_VERSION

_BATCH = SCHEMAS_A_STATEMENT
# A backend caches every table that it has read, so it is replaced after a thousand schemas.
_BATCHES_A_CONNECTION = 20
# One row per tenant, with the existing parts of its schema.
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
    """A tenant's schema and its version."""

    tenant: str
    schema: str
    # None: before the first migration.
    version: str | None
    # Why it cannot be migrated.
    broken: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to migrate."""
        return self.version is not None and self.version >= TENANT_VERSION


async def tenant_versions(database: Database) -> list[TenantVersion]:
    """Return the version of every tenant's schema; deprovisioned tenants without one are omitted.

    A transaction holds a lock on every table that it has read, and the server has room for a few
    thousand locks. So each batch of schemas is read in its own transaction.
    """
    rows = await _tenants(database)
    schemas = {TenantId(row.id): row.schema_name for row in rows if row.version_oid}
    versions: dict[str, str] = {}
    broken: dict[TenantId, str] = {}
    for number, start in enumerate(range(0, len(schemas), _BATCH), start=1):
        some = dict(islice(schemas.items(), start, start + _BATCH))
        async with database.transaction() as connection:
            broken |= await read_in_batches(connection, some, _reader(connection, versions))
            if number % _BATCHES_A_CONNECTION == 0:
                replace_connection(connection)
    if broken:
        # A schema that was dropped in the meantime is not an error.
        rows = await _tenants(database)
    return [
        TenantVersion(row.id, row.schema_name, versions.get(row.schema_name), _broken(row, broken))
        for row in rows
        if row.version_oid or row.status != "deprovisioned"
    ]


async def _tenants(database: Database) -> Sequence[TenantRow]:
    async with database.transaction() as connection:
        return (await connection.execute(_TENANTS)).all()


def _reader(
    connection: AsyncConnection, versions: dict[str, str]
) -> Callable[[Batch], Awaitable[None]]:
    async def read(batch: Batch) -> None:
        versions.update(await _versions(connection, [schema for _, schema in batch]))

    return read


async def version_in(connection: AsyncConnection, schema: str) -> str | None:
    """Return the version of one tenant's schema."""
    return (await _versions(connection, [schema])).get(schema)


async def _versions(connection: AsyncConnection, schemas: Sequence[str]) -> dict[str, str]:
    statement = SQL(" UNION ALL ").join(map(_version_of, schemas)).as_string()
    return await connection.run_sync(_read, statement)


def _version_of(schema: str) -> Composed:
    return _VERSION.format(name=Literal(schema), schema=Identifier(schema))


def _read(connection: Connection, statement: str) -> dict[str, str]:
    rows = connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    return {row[0]: row[1] for row in rows}


def _broken(row: TenantRow, unread: Mapping[TenantId, str]) -> str | None:
    if not row.schema_oid:
        return f"its schema {row.schema_name} is missing: restore it, or deprovision the tenant"
    if not row.version_oid:
        return f"its schema {row.schema_name} has no schema_version: tenantcron did not create it"
    return unread.get(TenantId(row.id))
