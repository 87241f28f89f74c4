"""Names of tenants and schedules for completion in a shell.

Uses a plain connection of psycopg: importing SQLAlchemy takes longer than a user waits. Each lookup
reads an index or the rows of one tenant.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tenantcron.core.errors import UsageError
from tenantcron.store.connection.database_urls import target_of

_TENANTS = sql.SQL(
    "SELECT id FROM tenantcron.tenant"
    " WHERE id >= %(prefix)s AND pg_catalog.starts_with(id, %(prefix)s) ORDER BY id LIMIT %(most)s"
)
_SCHEMA = sql.SQL("SELECT schema_name FROM tenantcron.tenant WHERE id = %(tenant)s")
_SCHEDULES = sql.SQL(
    "SELECT schedule_name FROM {}.tenant_schedule"
    " WHERE pg_catalog.starts_with(schedule_name, %(prefix)s)"
    " ORDER BY schedule_name LIMIT %(most)s"
)


class DatabaseNames:
    """Tenants and schedules of a database; none if it cannot be read."""

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self._most = most

    def tenants(self, prefix: str) -> Sequence[str]:
        """Return ids of tenants that begin with the prefix."""
        try:
            with self._connection() as connection:
                return self._texts(connection, _TENANTS, prefix=prefix)
        except (psycopg.Error, UsageError):
            return ()

    def schedules(self, tenant: str, prefix: str) -> Sequence[str]:
        """Return names of the tenant's schedules that begin with the prefix."""
        try:
            with self._connection() as connection:
                for schema in self._texts(connection, _SCHEMA, tenant=tenant):
                    statement = _SCHEDULES.format(sql.Identifier(schema))
                    return self._texts(connection, statement, prefix=prefix)
        except (psycopg.Error, UsageError):
            pass
        return ()

    def _connection(self) -> "psycopg.Connection[tuple[str, ...]]":
        return psycopg.connect(make_conninfo(**target_of(self._url).parameters), autocommit=True)

    def _texts(
        self,
        connection: "psycopg.Connection[tuple[str, ...]]",
        statement: sql.SQL | sql.Composed,
        **values: str,
    ) -> list[str]:
        found = connection.execute(statement, values | {"most": self._most})
        return [text for (text,) in found.fetchall()]
