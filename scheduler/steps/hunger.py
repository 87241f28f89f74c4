"""How often a replica records that it is short of slots: often enough to keep its places."""

from time import monotonic
from typing import Final

from tenantcron.store.steps.claiming import HUNGRY_FOR

# A replica that is short of slots looks again after so many seconds: others may have freed some.
LOOKS_AGAIN_AFTER: Final = 2.0
_RECORDED_FOR: Final = HUNGRY_FOR.total_seconds() / 3


class Hunger:
    """The last time that a replica recorded it; each claim under load would be too often."""

    __slots__ = ("_recorded_at",)

    def __init__(self) -> None:
        self._recorded_at: float | None = None

    def is_due(self) -> bool:
        """Whether it is time to record it; the answer yes counts as done."""
        now = monotonic()
        if self._recorded_at is not None and now - self._recorded_at < _RECORDED_FOR:
            return False
        self._recorded_at = now
        return True
