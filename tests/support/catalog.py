"""A schema as described by the database's catalog, for comparison with another."""

from functools import reduce

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

Description = dict[str, list[str]]


def _of_relations(columns: str, more: str) -> TextClause:
    return text(
        f"SELECT {columns} FROM pg_class AS t"  # noqa: S608 -- the constants below
        f" JOIN pg_namespace AS n ON n.oid = t.relnamespace AND n.nspname = :schema {more}"
    )


_PARTS = {
    "tables": _of_relations(
        "format('%s %s %s', t.relname, t.relkind, pg_get_partkeydef(t.oid))",
        "WHERE t.relkind IN ('r', 'p', 'S')",
    ),
    "views": _of_relations(
        "format('%s %s', t.relname, pg_get_viewdef(t.oid))", "WHERE t.relkind = 'v'"
    ),
    "columns": _of_relations(
        "format('%s.%s %s %s default %s identity %s', t.relname, a.attname,"
        " format_type(a.atttypid, a.atttypmod),"
        " CASE WHEN a.attnotnull THEN 'not null' ELSE 'null' END,"
        " coalesce(pg_get_expr(d.adbin, d.adrelid), 'none'), a.attidentity)",
        "AND t.relkind IN ('r', 'p')"
        " JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " LEFT JOIN pg_attrdef AS d ON d.adrelid = t.oid AND d.adnum = a.attnum",
    ),
    "constraints": _of_relations(
        "format('%s %s %s', t.relname, c.conname, pg_get_constraintdef(c.oid))",
        "JOIN pg_constraint AS c ON c.conrelid = t.oid",
    ),
    "indexes": _of_relations(
        "pg_get_indexdef(i.indexrelid)", "JOIN pg_index AS i ON i.indrelid = t.oid"
    ),
    "triggers": _of_relations(
        "format('%s enabled %s', pg_get_triggerdef(g.oid), g.tgenabled)",
        "JOIN pg_trigger AS g ON g.tgrelid = t.oid AND NOT g.tgisinternal",
    ),
    "policies": _of_relations(
        "format('%s rls %s %s %s', t.relname, t.relrowsecurity, p.polname,"
        " pg_get_expr(p.polqual, p.polrelid))",
        "JOIN pg_policy AS p ON p.polrelid = t.oid",
    ),
    "functions": text(
        "SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p"
        " JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname = :schema"
    ),
}


async def describe(connection: AsyncConnection, schema: str) -> Description:
    """Describe everything in a schema, sorted, without the name of the schema."""
    return {part: await _lines(connection, part, schema) for part in _PARTS}


def without(description: Description, table: str) -> Description:
    """Remove a table from a description."""
    return {
        part: [line for line in lines if table not in line] for part, lines in description.items()
    }


async def _lines(connection: AsyncConnection, part: str, schema: str) -> list[str]:
    found = await connection.scalars(_PARTS[part], {"schema": schema})
    own = (f'"{schema}".', f"{schema}.", f"'{schema}'")
    return sorted(reduce(lambda line, name: line.replace(name, ""), own, line) for line in found)
