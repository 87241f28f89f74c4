"""The hot statements: reviewed SQL, one file per step of the protocol."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of `<name>.sql` in this folder; its parameters are psycopg's `%(name)s`.

    Comments and indentation are removed: then a statement is short enough for psycopg to cache its
    parsed form, and the server has less to parse, hundreds of times per second.
    """
    text = files("tenantcron.store.steps").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))
