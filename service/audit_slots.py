"""Slots limit how many audits a process runs at a time, because they take CPU time.

Like the slots for manifests, they protect this process, so the process counts them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenantcron.service.problems import unavailable

MOST_AUDITS: Final = 2


class AuditSlots:
    """The slots of one process."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take a slot; raise ApiProblem if none is free."""
        if self._taken >= MOST_AUDITS:
            raise unavailable("other audits are running: retry")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
