"""The hot statements: reviewed SQL, one file per step of the protocol.

A statement can have several forms, because most of the cost of a short one is planning. Its lines
between `-- [shares]` and `-- [end]` belong to the form with shares only, and those between
`-- [plain]` and `-- [end]` to the plain form. In the same way, lines belong to the forms with or
without quotas (`-- [quotas]`, `-- [no quotas]`). The form with shares has quotas, too.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_BOTH = "-- [end]"


@cache
def statement(name: str, *, shares: bool = False, quotas: bool = False) -> str:
    """Return the text of `<name>.sql` in this folder; its parameters are psycopg's `%(name)s`.

    Comments and indentation are removed: then a statement is short enough for psycopg to cache its
    parsed form, and the server has less to parse, hundreds of times per second.
    """
    text = files("tenantcron.store.steps").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    belonging = _of_form(lines, shares=shares, quotas=quotas or shares)
    return "\n".join(line for line in belonging if not line.startswith("--"))


def _of_form(lines: Iterator[str], *, shares: bool, quotas: bool) -> Iterator[str]:
    """Yield the lines of a form that are not empty."""
    forms = {
        "-- [shares]": shares,
        "-- [plain]": not shares,
        "-- [quotas]": quotas,
        "-- [no quotas]": not quotas,
        _BOTH: True,
    }
    belongs = True
    for line in lines:
        belongs = forms.get(line, belongs)
        if line and belongs:
            yield line
