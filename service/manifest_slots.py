"""Slots limit how many manifests a process checks at a time, per caller and in total.

A manifest is the most expensive request: it takes hundreds of milliseconds of CPU time. Slots
protect the CPU and the memory of this process, so the process counts them: a slot is released
whatever happens to its request, and a killed process leaves none behind. The rate limit of a caller
over all processes is counted in the database (see `callers`).

A slot is taken after the body is read, so a body that never arrives holds none. A caller without a
free slot gets 429 and does not use the slots of other callers.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenantcron.service.problems import RETRY_AFTER, ApiProblem, unavailable

# As many as the command line sends at a time with --server.
EACH: Final = 8
# A manifest has at most 1 MiB and takes a few times that while it is checked.
ALL: Final = 64


class ManifestSlots:
    """The slots of one process."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """Take a slot for the caller with this key; raise ApiProblem if none is free."""
        if self._taken[caller] >= EACH:
            detail = f"the limit is {EACH} manifests per caller at a time: wait for a response"
            raise ApiProblem("TC719", detail, headers={"Retry-After": str(RETRY_AFTER)})
        if self._taken.total() >= ALL:
            raise unavailable("too many manifests are being checked: retry")
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            # Drop counts of zero, so that the counter does not grow with every caller.
            self._taken += Counter()
