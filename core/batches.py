"""Long sequences, a bounded part at a time."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of that size; only one list is held at a time."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
