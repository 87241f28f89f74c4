"""What the database's own catalog says is in a schema, one line for each object.

The lines are the same on every supported version of PostgreSQL, so that they can be compared with a
list that was made on another server. Texts that the server writes anew, such as the definition of
an index, are not: they change between versions.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# A function's text is kept as it was written. The body of one that was parsed when it was created
# is not text, so its line says its name only.
_OBJECTS: Final = """
SELECT n.nspname, o.line
FROM pg_catalog.pg_namespace AS n
CROSS JOIN LATERAL (
    SELECT CASE c.relkind WHEN 'v' THEN 'view ' ELSE 'table ' END || c.relname
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT
        'column ' || c.relname || '.' || a.attname || ' '
        || pg_catalog.format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
    UNION ALL
    SELECT 'index ' || c.relname || ' on ' || t.relname
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_index AS i ON i.indexrelid = c.oid
    JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid
    WHERE c.relnamespace = n.oid AND i.indisvalid
    UNION ALL
    -- PostgreSQL 18 has constraints for NOT NULL, too; the columns say that already.
    SELECT 'constraint ' || k.conname || ' on ' || c.relname
    FROM pg_catalog.pg_constraint AS k
    JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid
    WHERE c.relnamespace = n.oid AND k.contype IN ('c', 'f', 'p', 'u') AND k.convalidated
    UNION ALL
    SELECT
        'trigger ' || g.tgname || ' on ' || c.relname
        || CASE g.tgenabled WHEN 'A' THEN ' always' WHEN 'O' THEN '' ELSE ' disabled' END
    FROM pg_catalog.pg_trigger AS g
    JOIN pg_catalog.pg_class AS c ON c.oid = g.tgrelid
    WHERE c.relnamespace = n.oid AND NOT g.tgisinternal
    UNION ALL
    SELECT 'row security on ' || c.relname
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = n.oid AND c.relrowsecurity
    UNION ALL
    SELECT 'policy ' || p.polname || ' on ' || c.relname
    FROM pg_catalog.pg_policy AS p
    JOIN pg_catalog.pg_class AS c ON c.oid = p.polrelid
    WHERE c.relnamespace = n.oid
    UNION ALL
    SELECT
        'function ' || p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid)
        || ')' || CASE WHEN p.prosecdef THEN ' security definer' ELSE '' END
        || CASE WHEN p.prosrc = '' THEN '' ELSE ' md5 ' || pg_catalog.md5(p.prosrc) END
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = n.oid
) AS o (line)
WHERE n.nspname = ANY (CAST(:schemas AS text[]))
"""
_LINES = text(f'SELECT line FROM ({_OBJECTS}) AS found ORDER BY line COLLATE "C"')  # noqa: S608 -- the constant above
_MISSING = text(
    "SELECT s.nspname, e.line FROM unnest(CAST(:schemas AS text[])) AS s (nspname)"  # noqa: S608 -- as above
    " CROSS JOIN unnest(CAST(:expected AS text[])) AS e (line)"
    f" EXCEPT ({_OBJECTS}) ORDER BY 1, 2"
)


async def objects_of(connection: AsyncConnection, schema: str) -> list[str]:
    """Return the lines of one schema, sorted."""
    return list(await connection.scalars(_LINES, {"schemas": [schema]}))


async def missing_objects(
    connection: AsyncConnection, schemas: Sequence[str], expected: Sequence[str]
) -> list[tuple[str, str]]:
    """Return which of the expected lines which schema lacks; only the catalog is read."""
    values = {"schemas": list(schemas), "expected": list(expected)}
    return [(row[0], row[1]) for row in await connection.execute(_MISSING, values)]
