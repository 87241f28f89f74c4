"""A database that can be restored to an earlier state within milliseconds, repeatedly.

Audit records and the times of changes stay: they are append-only, even for superusers.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier

_TABLES = """
SELECT n.nspname, c.relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND (n.nspname = 'tenantcron' OR n.nspname LIKE 'tenant\\_%')
    AND c.relname NOT IN ('audit_record', 'schedule_change')
ORDER BY 1, 2
"""
_COPIES = "copies"


@dataclass(frozen=True, slots=True)
class Restorer:
    """Stores the rows of all tables of the product, and restores them."""

    connection: psycopg.AsyncConnection[Any]
    script: Composed

    async def restore(self) -> None:
        """Restore all rows; triggers and foreign keys are disabled."""
        async with self.connection.transaction():
            await self.connection.execute(self.script)


async def remember(connection: psycopg.AsyncConnection[Any]) -> Restorer:
    """Copy every row, inside the database; the connection must be of a superuser."""
    tables = await (await connection.execute(_TABLES)).fetchall()
    await connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(_COPIES)))
    script: list[Composable] = [SQL("SET LOCAL session_replication_role TO replica;")]
    for number, (schema, name) in enumerate(tables):
        table, copy = Identifier(schema, name), Identifier(_COPIES, f"t{number}")
        await connection.execute(SQL("CREATE TABLE {} AS TABLE {}").format(copy, table))
        put_back = SQL(
            "DELETE FROM {0}; INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM {1};"
        )
        script.append(put_back.format(table, copy))
    return Restorer(connection, Composed(script))
