"""The hot statements: reviewed SQL in files of their own, one step of the protocol each."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of `sql/<name>.sql`; its parameters are psycopg's `%(name)s`."""
    return files("tenantcron.store").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
