"""Split long sequences into batches."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, one list in memory at a time."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
