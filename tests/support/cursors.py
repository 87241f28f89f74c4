"""Cursors in the database, read and changed as by the scheduler or an operator."""

from datetime import UTC, datetime

import psycopg
from psycopg.rows import DictRow, dict_row

CURSORS = "SELECT * FROM tenantcron.schedule_cursor ORDER BY tenant_id, schedule_name"


def run(url: str, statement: str, *values: object) -> list[DictRow]:
    """Run a statement directly, with values for its `%s`."""
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def cursors(url: str, tenant: str = "acme") -> dict[str, DictRow]:
    """Return a tenant's cursors by schedule name."""
    return {row["schedule_name"]: row for row in run(url, CURSORS) if row["tenant_id"] == tenant}


def cursor(url: str, name: str = "nightly") -> DictRow:
    """Return one of acme's cursors."""
    return cursors(url)[name]


def set_cursor(url: str, name: str = "nightly", **values: object) -> None:
    """Change columns of a cursor, as the scheduler would."""
    columns = ", ".join(f"{column} = %s" for column in values)
    statement = f"UPDATE tenantcron.schedule_cursor SET {columns} WHERE schedule_name = %s"  # noqa: S608 -- column names from tests
    run(url, statement, *values.values(), name)


def set_schedule(url: str, name: str = "nightly", tenant: str = "acme", **values: object) -> None:
    """Change columns of a tenant's schedule manually."""
    columns = ", ".join(f"{column} = %s" for column in values)
    statement = f"UPDATE tenant_{tenant}.tenant_schedule SET {columns} WHERE schedule_name = %s"  # noqa: S608 -- column names from tests
    run(url, statement, *values.values(), name)


def versions(url: str) -> list[DictRow]:
    """Return all rows of cursors, definitions and tenants with versions: equal means no write."""
    found: list[DictRow] = []
    for table in ("schedule_cursor", "schedule_definition", "tenant"):
        columns = "xmin::text, ctid::text, t::text"
        found += run(url, f"SELECT {columns} FROM tenantcron.{table} AS t ORDER BY 3")  # noqa: S608 -- the names above
    return found


def utc(*parts: int) -> datetime:
    """Return a moment."""
    year, month, day, hour, minute, second = (*parts, 0, 0, 0)[:6]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
