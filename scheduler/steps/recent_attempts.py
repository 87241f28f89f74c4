"""Recent attempts of a replica, for the comparison after a failover.

Batches of references to existing objects: a batch of claims or results costs one append.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Final

from tenantcron.store.rows.failovers import Remembered
from tenantcron.store.steps.claiming import Claimed, Lease

MOST: Final = 20_000
LONGEST: Final = 300.0

_Batch = tuple[float, Sequence[Claimed]]


class _Batches:
    """The batches of the last minutes, oldest first."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()
        self._number = 0

    def add(self, batch: Sequence[Claimed]) -> None:
        if not batch:
            return
        now = monotonic()
        self._batches.append((now, batch))
        self._number += len(batch)
        while self._number > MOST or now - self._batches[0][0] > LONGEST:
            _, oldest = self._batches.popleft()
            self._number -= len(oldest)

    def __iter__(self) -> Iterator[Claimed]:
        oldest = monotonic() - LONGEST
        for added, batch in self._batches:
            if added >= oldest:
                yield from batch


class RecentAttempts:
    """The claims and results of the last minutes."""

    def __init__(self) -> None:
        self._claims, self._results = _Batches(), _Batches()

    def note_claimed(self, claimed: Sequence[Claimed]) -> None:
        """Remember claimed attempts."""
        self._claims.add(claimed)

    def note_ended(self, claimed: Sequence[Claimed]) -> None:
        """Remember attempts whose results were written."""
        self._results.add(claimed)

    def remembered(self) -> list[Remembered]:
        """Return each attempt once."""
        found: dict[Lease, Remembered] = {
            claimed.lease: Remembered(claimed, ended=False) for claimed in self._claims
        }
        for claimed in self._results:
            found[claimed.lease] = Remembered(claimed, ended=True)
        return list(found.values())
