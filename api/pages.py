"""Pagination of lists. A page returns an opaque position, from which the next page continues.

The position contains the sort key of the last row, so concurrent inserts and deletes do not shift
pages: a client sees each row that exists throughout exactly once. The position is not signed. It
contains no secret and grants no access, because every page checks what the caller may see.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from tenantcron.api.replies import encoded
from tenantcron.service.problems import ApiProblem, invalid

LARGEST: Final = 500
DEFAULT: Final = 50
# A page of 500 ordinary rows has less than half of this.
MOST_BYTES: Final = 4 * 1024**2
_LONGEST: Final = 1_000

T = TypeVar("T")


class ResultPage(Generic[T]):
    """A page to which rows are added until its number of rows or of bytes is reached.

    The first row always fits, so that every page makes progress.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        to_json: Callable[[T], object],
        position: Callable[[T], Sequence[str | int | bool]],
    ) -> None:
        self._name = name
        self._limit = limit
        self._to_json = to_json
        self._position = position
        self._items: list[object] = []
        self._bytes = 0
        self._last: T | None = None
        self._is_full = False

    def add(self, row: T) -> bool:
        """Add a row; False if it belongs to the next page."""
        item = self._to_json(row)
        self._bytes += len(encoded(item))
        too_large = self._items and self._bytes > MOST_BYTES
        if too_large or len(self._items) == self._limit:
            self._is_full = True
            return False
        self._items.append(item)
        self._last = row
        return True

    def answer(self) -> Mapping[str, object]:
        """Return the page and the position of the next one."""
        following = None
        if self._is_full and self._last is not None:
            following = encoded_position(self._position(self._last))
        return {self._name: self._items, "next": following}


def page(
    name: str,
    rows: Iterable[T],
    limit: int,
    *,
    to_json: Callable[[T], object],
    position: Callable[[T], Sequence[str | int | bool]],
) -> Mapping[str, object]:
    """Return a page of rows; the caller has fetched one row more than the limit."""
    filled = ResultPage(name, limit, to_json=to_json, position=position)
    for row in rows:
        if not filled.add(row):
            break
    return filled.answer()


def encoded_position(position: Sequence[str | int | bool]) -> str:
    """Encode a position."""
    return urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def text_position(after: str | None) -> str | None:
    """Parse a position in a list that is ordered by names or ids."""
    match position_parts(after):
        case None:
            return None
        case [str(name)] if name.isprintable():
            return name
    raise invalid_position()


def number_position(after: str | None) -> int | None:
    """Parse a position in a list that is ordered by numbers."""
    match position_parts(after):
        case None:
            return None
        case [int(number)] if 0 <= number < 2**31:
            return number
    raise invalid_position()


def moment(text: object) -> datetime:
    """Parse a time in a position."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise invalid_position() from error


def position_parts(after: str | None) -> list[object] | None:
    """Parse a position of several parts."""
    if after is None:
        return None
    if len(after) > _LONGEST:
        raise invalid_position()
    try:
        position = json.loads(urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except (ValueError, RecursionError) as error:
        raise invalid_position() from error
    if not isinstance(position, list):
        raise invalid_position()
    return position


def invalid_position() -> ApiProblem:
    """Return the problem of an invalid position."""
    error = {"in": "query", "name": "after", "message": "use the value of `next` of a page"}
    return invalid("`after` is not a position in this list", error)
