"""Slots: how many manifests one process works on at a time, for each caller and in all.

A manifest is the most expensive thing that a caller can send: hundreds of milliseconds of
processor time. What the slots protect is the processor and the memory of this process, so they are
counted here: a slot is free again whatever happens to its request, and a process that dies leaves
none behind. How many requests a caller may make over all processes is counted in the database (see
`callers`).

A slot is taken after the body was read, so one that never comes holds none. A caller without a free
slot gets 429, and keeps no other caller from its own slots.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenantcron.service.problems import RETRY_AFTER, ApiProblem, unavailable

# As many as a command with --server sends at a time.
EACH: Final = 8
# A manifest has a mebibyte at most, and a few times that while a process works on it.
ALL: Final = 64


class ManifestSlots:
    """The slots of one process."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """Take a slot for the caller with this key; a Problem if none is free."""
        if self._taken[caller] >= EACH:
            detail = f"{EACH} manifests of one caller are checked at a time: wait for an answer"
            raise ApiProblem("TC719", detail, headers={"Retry-After": str(RETRY_AFTER)})
        if self._taken.total() >= ALL:
            raise unavailable("too many manifests are being checked: try again")
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            # What is zero counts for nothing, but would be kept for each caller there ever was.
            self._taken += Counter()
