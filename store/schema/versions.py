"""Which version the control schema is at, and which versions this program is made for.

A version is the name of a migration; they sort by their number. A schema that is newer than the
program is fine: migrations are made so that the code before them can live with them.
"""

from psycopg.errors import UndefinedTable
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.errors import MigrationMissingError

# Tests hold these two against the newest migrations, so that nobody loads Alembic to know them.
CONTROL_VERSION = "0014_retrying"
TENANT_VERSION = "0002_audit_retention"
# The table in each schema that says which version the schema is at.
VERSION_TABLE = "schema_version"

_READ = text("SELECT version_num FROM tenantcron.schema_version")
_EXISTS = text(
    "SELECT true FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'tenantcron' AND c.relname = 'schema_version'"
)


async def require_migrated(connection: AsyncConnection) -> None:
    """Raise MigrationMissingError unless the control schema is as new as this program.

    One query. After the error the transaction is of no further use.
    """
    try:
        version: str | None = await connection.scalar(_READ)
    except ProgrammingError as error:
        if not isinstance(error.orig, UndefinedTable):
            raise
        version = None
    if version is None:
        raise MigrationMissingError(
            "the database has no tenantcron in it: run `tenantcron migrate`"
        )
    if version < CONTROL_VERSION:
        raise MigrationMissingError(
            f"the database is at {version}, this program needs {CONTROL_VERSION}: "
            "run `tenantcron migrate`"
        )


async def has_control_versions(connection: AsyncConnection) -> bool:
    """Whether the control schema has the table of its version."""
    return bool(await connection.scalar(_EXISTS))


async def control_version(connection: AsyncConnection) -> str | None:
    """Return the version of the control schema, None if it is not there or empty."""
    if not await has_control_versions(connection):
        return None
    version: str | None = await connection.scalar(_READ)
    return version
