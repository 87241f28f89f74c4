"""Scripts with several statements, sent in one round trip."""

from typing import LiteralString

from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import Connection


def for_schema(script: LiteralString, schema: str) -> str:
    """Replace `{schema}` in a reviewed script by the quoted schema, and `{name}` by a literal."""
    return SQL(script).format(schema=Identifier(schema), name=Literal(schema)).as_string()


def run_script(connection: Connection, script: str) -> None:
    """Send the script unchanged: `%` and `:` do not mark parameters."""
    connection.exec_driver_sql(script, execution_options={"no_parameters": True})
