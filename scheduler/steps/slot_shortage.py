"""Slot shortage: how often a replica records that its executions wait for slots."""

from time import monotonic
from typing import Final

from tenantcron.store.steps.claiming import HUNGRY_FOR

# A replica that is short of slots claims again after this time: others may have freed slots.
RECLAIM_AFTER: Final = 2.0
_RECORDED_FOR: Final = HUNGRY_FOR.total_seconds() / 3


class SlotShortage:
    """Limits how often a replica records a shortage. With each claim would be too often."""

    __slots__ = ("_recorded_at",)

    def __init__(self) -> None:
        self._recorded_at: float | None = None

    def is_due(self) -> bool:
        """Return whether to record the shortage now; True counts as recorded."""
        now = monotonic()
        if self._recorded_at is not None and now - self._recorded_at < _RECORDED_FOR:
            return False
        self._recorded_at = now
        return True
