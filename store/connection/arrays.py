"""Array parameters as text, for statements with hundreds of rows.

psycopg adapts a list item by item, which takes about two microseconds each. With ten columns, that
is more than all other work of firing an occurrence. The text is an ordinary parameter that the
statement casts to the array type.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from uuid import UUID


def uuids(items: Iterable[UUID]) -> str:
    """Format ids."""
    return "{" + ",".join([item.hex for item in items]) + "}"


def words(items: Iterable[str | int | float]) -> str:
    """Format items that need no quoting: numbers, states."""
    return "{" + ",".join([str(item) for item in items]) + "}"


def numbers(items: Iterable[int | None]) -> str:
    """Format numbers that may be null."""
    return "{" + ",".join(["NULL" if item is None else str(item) for item in items]) + "}"


def times(items: Iterable[datetime | None]) -> str:
    """Format times."""
    return "{" + ",".join(["NULL" if item is None else _time(item) for item in items]) + "}"


def texts(items: Iterable[str | None]) -> str:
    """Format any text."""
    return "{" + ",".join(["NULL" if item is None else _quoted(item) for item in items]) + "}"


def rare_texts(items: Iterable[str | None]) -> str:
    """Format texts that are nearly always null: `unnest` pads a short array with nulls."""
    found = list(items)
    return texts(found) if any(found) else "{}"


# Most occurrences of a batch have the same time.
@lru_cache(maxsize=1024)
def _time(moment: datetime) -> str:
    return moment.isoformat()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
