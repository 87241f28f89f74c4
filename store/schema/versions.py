"""The version of the control schema, and the versions that this program needs.

A version is the name of a migration; versions sort by number. A schema that is newer than the
program is fine: migrations are compatible with the previous release.
"""

from psycopg.errors import UndefinedTable
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.errors import MigrationMissingError

# Tests compare these two with the newest migrations, so that reading them does not load Alembic.
CONTROL_VERSION = "0025_live_logs"
TENANT_VERSION = "0003_schedule_changes"
# The table in each schema that contains its version.
VERSION_TABLE = "schema_version"

_READ = text("SELECT version_num FROM tenantcron.schema_version")
_EXISTS = text(
    "SELECT true FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'tenantcron' AND c.relname = 'schema_version'"
)


async def require_migrated(connection: AsyncConnection) -> None:
    """Raise MigrationMissingError unless the control schema is as new as this program.

    It takes one query. After the error, the transaction cannot be used any more.
    """
    try:
        version: str | None = await connection.scalar(_READ)
    except ProgrammingError as error:
        if not isinstance(error.orig, UndefinedTable):
            raise
        version = None
    if version is None:
        raise MigrationMissingError(
            "tenantcron is not installed in the database: run `tenantcron migrate`"
        )
    if version < CONTROL_VERSION:
        raise MigrationMissingError(
            f"the database is at {version}, this program needs {CONTROL_VERSION}: "
            "run `tenantcron migrate`"
        )


async def has_control_versions(connection: AsyncConnection) -> bool:
    """Whether the control schema has its version table."""
    return bool(await connection.scalar(_EXISTS))


async def control_version(connection: AsyncConnection) -> str | None:
    """Return the version of the control schema; None if it is missing or empty."""
    if not await has_control_versions(connection):
        return None
    version: str | None = await connection.scalar(_READ)
    return version
