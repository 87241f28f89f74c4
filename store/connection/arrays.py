"""Arrays as text, for statements that take hundreds of rows at a time.

psycopg would write a list item by item, at a cost of some two microseconds each; with ten columns
that is more than everything else that firing an occurrence costs here. The text is a parameter like
any other, cast to its type by the statement.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from uuid import UUID


def uuids(items: Iterable[UUID]) -> str:
    """Write ids."""
    return "{" + ",".join([one.hex for one in items]) + "}"


def words(items: Iterable[str | int | float]) -> str:
    """Write items that have no character with a meaning of its own: numbers, states."""
    return "{" + ",".join([str(one) for one in items]) + "}"


def numbers(items: Iterable[int | None]) -> str:
    """Write numbers that may be missing."""
    return "{" + ",".join(["NULL" if one is None else str(one) for one in items]) + "}"


def times(items: Iterable[datetime | None]) -> str:
    """Write moments."""
    return "{" + ",".join(["NULL" if one is None else _time(one) for one in items]) + "}"


def texts(items: Iterable[str | None]) -> str:
    """Write any text."""
    return "{" + ",".join(["NULL" if one is None else _quoted(one) for one in items]) + "}"


# The occurrences of a batch are mostly of the same moment.
@lru_cache(maxsize=1024)
def _time(moment: datetime) -> str:
    return moment.isoformat()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
