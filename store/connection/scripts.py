"""Scripts of several statements, sent in one round trip."""

from typing import LiteralString

from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import Connection


def for_schema(script: LiteralString, schema: str) -> str:
    """Put a schema, quoted, in all places of a reviewed script that say `{schema}`.

    `{name}` stands for the same as text.
    """
    return SQL(script).format(schema=Identifier(schema), name=Literal(schema)).as_string()


def run_script(connection: Connection, script: str) -> None:
    """Send the script as it is: a `%` or `:` in it is itself, not a parameter."""
    connection.exec_driver_sql(script, execution_options={"no_parameters": True})
