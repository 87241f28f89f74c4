"""The hot statements: reviewed SQL in files of their own, one step of the protocol each."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of `<name>.sql` in this folder; its parameters are psycopg's `%(name)s`.

    Comments and indents are for people: without them a statement is short enough for psycopg to
    remember what it made of it, and the server has less to read, hundreds of times a second.
    """
    text = files("tenantcron.store.steps").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))
