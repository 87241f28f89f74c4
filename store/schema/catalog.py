"""The objects of a schema according to the catalog, one line for each.

The lines are the same on every supported version of PostgreSQL, so they can be compared with a list
from another server. They contain no text that the server generates, such as the definition of an
index, because that changes between versions.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# The catalog has no index on the schema of a table. So one scan finds the tables of all schemas,
# and their parts by id: a scan per schema takes minutes for a thousand schemas. The source of a
# function is stored unchanged. A function with a parsed body has no source, so its line has no
# digest.
_OBJECTS: Final = """
WITH relation AS MATERIALIZED (
    SELECT n.nspname, c.oid, c.relname, c.relkind, c.relrowsecurity
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (CAST(:schemas AS text[])) AND c.relkind IN ('r', 'p', 'v')
)
SELECT r.nspname, CASE r.relkind WHEN 'v' THEN 'view ' ELSE 'table ' END || r.relname AS line
FROM relation AS r
UNION ALL
SELECT
    r.nspname,
    'column ' || r.relname || '.' || a.attname || ' '
    || pg_catalog.format_type(a.atttypid, a.atttypmod)
    || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
FROM relation AS r
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE r.relkind <> 'v'
UNION ALL
SELECT r.nspname, 'index ' || c.relname || ' on ' || r.relname
FROM relation AS r
JOIN pg_catalog.pg_index AS i ON i.indrelid = r.oid AND i.indisvalid
JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
UNION ALL
-- PostgreSQL 18 also has constraints for NOT NULL, which the columns show already.
SELECT r.nspname, 'constraint ' || k.conname || ' on ' || r.relname
FROM relation AS r
JOIN pg_catalog.pg_constraint AS k
    ON k.conrelid = r.oid AND k.contype IN ('c', 'f', 'p', 'u') AND k.convalidated
UNION ALL
SELECT
    r.nspname,
    'trigger ' || g.tgname || ' on ' || r.relname
    || CASE g.tgenabled WHEN 'A' THEN ' always' WHEN 'O' THEN '' ELSE ' disabled' END
FROM relation AS r
JOIN pg_catalog.pg_trigger AS g ON g.tgrelid = r.oid AND NOT g.tgisinternal
UNION ALL
SELECT r.nspname, 'row security on ' || r.relname
FROM relation AS r
WHERE r.relrowsecurity
UNION ALL
SELECT r.nspname, 'policy ' || p.polname || ' on ' || r.relname
FROM relation AS r
JOIN pg_catalog.pg_policy AS p ON p.polrelid = r.oid
UNION ALL
SELECT
    n.nspname,
    'function ' || p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid)
    || ')' || CASE WHEN p.prosecdef THEN ' security definer' ELSE '' END
    || CASE WHEN EXISTS (
        SELECT
        FROM pg_catalog.aclexplode(
            coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
        ) AS a
        WHERE a.grantee = 0
    ) THEN ' for public' ELSE '' END
    || CASE WHEN p.prosrc = '' THEN '' ELSE ' md5 ' || pg_catalog.md5(p.prosrc) END
FROM pg_catalog.pg_proc AS p
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
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
    """Return the expected lines that each schema lacks; reads only the catalog."""
    values = {"schemas": list(schemas), "expected": list(expected)}
    return [(row[0], row[1]) for row in await connection.execute(_MISSING, values)]
