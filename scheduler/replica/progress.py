"""Progress of the main loops: whether the process works, independent of its database.

The main loops are refresh, fire, claim, recover and heartbeat. A loop makes progress when a step
ends, either successfully or with a database error that the loop retries. So an unavailable database
does not make a replica unhealthy: its loops keep retrying, and a restart would not help. A loop
makes no progress if a step neither returns nor fails, or if the loop does not wake up in time.

A replica is unhealthy if any main loop has made no progress for two leases. The limit is never
shorter than two statements take to expire, and for refresh never shorter than ten minutes: the
first refresh of a large fleet is one long step.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

from tenantcron.core.settings import Settings
from tenantcron.store.connection.deadlines import patience

LEASES: Final = 2
_LONG_STEPS: Final = {"refresh": 600.0}


@dataclass(slots=True)
class _Loop:
    """One loop: since when progress is expected, and the error of its last step."""

    since: float
    error: str | None = None


class Progress:
    """The progress of all loops. Each loop writes its own entry, also from the lease thread."""

    def __init__(self) -> None:
        self._loops: dict[str, _Loop] = {}

    def began(self, name: str) -> None:
        """Record that a step begins."""
        self._loops.setdefault(name, _Loop(0.0)).since = monotonic()

    def ended(self, name: str, sleeps: float, error: str | None = None) -> None:
        """Record that a step ended, and how long the loop sleeps now."""
        self._loops[name] = _Loop(monotonic() + sleeps, error)

    def error_of(self, name: str) -> str | None:
        """Return the error of a loop's last step; None if it succeeded."""
        loop = self._loops.get(name)
        return None if loop is None else loop.error

    def stuck(self, settings: Settings) -> Iterator[str]:
        """Yield a message for each loop that has made no progress for too long."""
        statements = 2 * patience(settings.database_timeout)
        limit = max(LEASES * settings.lease.total_seconds(), statements)
        for name, loop in tuple(self._loops.items()):
            seconds = monotonic() - loop.since
            if seconds > max(limit, _LONG_STEPS.get(name, 0.0)):
                yield f"the loop {name} has made no progress for {seconds:.0f} s"
