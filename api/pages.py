"""Pages of lists. Where a page ends is written into an opaque text, from which the next goes on.

The text holds the sort key of the last row, so rows that come or go meanwhile move nothing: whoever
follows the pages sees each row that was there all the time exactly once. It is not signed: it is no
secret and gives no rights, for what a caller sees is decided anew on every page.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from tenantcron.api.problems import Problem, invalid

LARGEST: Final = 500
DEFAULT: Final = 50
_LONGEST: Final = 1_000

T = TypeVar("T")


def page(
    name: str,
    rows: Sequence[T],
    limit: int,
    *,
    tell: Callable[[T], object],
    place: Callable[[T], Sequence[str | int | bool]],
) -> Mapping[str, object]:
    """Return a page of rows, of which one more than the limit was asked for."""
    shown = rows[:limit]
    following = _written(place(shown[-1])) if len(rows) > limit else None
    return {name: [tell(row) for row in shown], "next": following}


def _written(place: Sequence[str | int | bool]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def text_place(after: str | None) -> str | None:
    """Read a place in a list that is ordered by names or ids."""
    match parts(after):
        case None:
            return None
        case [str(name)] if name.isprintable():
            return name
    raise not_a_place()


def number_place(after: str | None) -> int | None:
    """Read a place in a list that is ordered by numbers."""
    match parts(after):
        case None:
            return None
        case [int(number)] if 0 <= number < 2**31:
            return number
    raise not_a_place()


def moment(text: object) -> datetime:
    """Read a time out of a place."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise not_a_place() from error


def parts(after: str | None) -> list[object] | None:
    """Read a place that has several parts."""
    if after is None:
        return None
    if len(after) > _LONGEST:
        raise not_a_place()
    try:
        place = json.loads(urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except (ValueError, RecursionError) as error:
        raise not_a_place() from error
    if not isinstance(place, list):
        raise not_a_place()
    return place


def not_a_place() -> Problem:
    """Return the problem of a text that no page ended with."""
    error = {"in": "query", "name": "after", "message": "take it from `next` of a page"}
    return invalid("`after` is not the end of a page of this list", error)
