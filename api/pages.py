"""Pages of lists. Where a page ends is written into an opaque text, from which the next goes on.

The text holds the sort key of the last row, so rows that come or go meanwhile move nothing: whoever
follows the pages sees each row that was there all the time exactly once. It is not signed: it is no
secret and gives no rights, for what a caller sees is decided anew on every page.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from tenantcron.api.replies import written
from tenantcron.service.problems import ApiProblem, invalid

LARGEST: Final = 500
DEFAULT: Final = 50
# A page of 500 ordinary rows has less than half of it.
MOST_BYTES: Final = 4 * 1024**2
_LONGEST: Final = 1_000

T = TypeVar("T")


class ResultPage(Generic[T]):
    """A page that is being filled: rows are added until it is full, in their number or in bytes.

    The first row always fits, however large it is, so that every page leads further.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        tell: Callable[[T], object],
        place: Callable[[T], Sequence[str | int | bool]],
    ) -> None:
        self._name = name
        self._limit = limit
        self._tell = tell
        self._place = place
        self._told: list[object] = []
        self._bytes = 0
        self._last: T | None = None
        self._is_full = False

    def add(self, row: T) -> bool:
        """Add a row; False if it belongs to the next page."""
        told = self._tell(row)
        self._bytes += len(written(told))
        too_large = self._told and self._bytes > MOST_BYTES
        if too_large or len(self._told) == self._limit:
            self._is_full = True
            return False
        self._told.append(told)
        self._last = row
        return True

    def answer(self) -> Mapping[str, object]:
        """Return the page, and where the next one begins."""
        following = None
        if self._is_full and self._last is not None:
            following = _written(self._place(self._last))
        return {self._name: self._told, "next": following}


def page(
    name: str,
    rows: Iterable[T],
    limit: int,
    *,
    tell: Callable[[T], object],
    place: Callable[[T], Sequence[str | int | bool]],
) -> Mapping[str, object]:
    """Return a page of rows, of which one more than the limit was asked for."""
    filled = ResultPage(name, limit, tell=tell, place=place)
    for row in rows:
        if not filled.add(row):
            break
    return filled.answer()


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


def not_a_place() -> ApiProblem:
    """Return the problem of a text that no page ended with."""
    error = {"in": "query", "name": "after", "message": "take it from `next` of a page"}
    return invalid("`after` is not the end of a page of this list", error)
