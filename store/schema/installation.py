"""The identity of the database."""

from typing import Final

from sqlalchemy import text

from tenantcron.store.connection.engine import Database

# initdb sets the system identifier, which survives failovers; a server has several databases.
_IDENTITY: Final = text(
    """
    SELECT c.system_identifier::text || '/' || d.oid
    FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
    WHERE d.datname = current_database()
    """
)


async def identity(database: Database) -> str:
    """Return an id that no other database has, not even a restored copy."""
    async with database.transaction() as connection:
        return str(await connection.scalar(_IDENTITY))
