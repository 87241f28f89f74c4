"""Slot shortage: how often a replica records that its executions wait for slots, and its claims."""

from dataclasses import dataclass
from time import monotonic
from typing import Final

from tenantcron.store.steps.claiming import HUNGRY_FOR

# A replica that is short of slots claims again after this time: others may have freed slots.
RECLAIM_AFTER: Final = 2.0
# A backlog is checked for several priorities only this often.
_UNIFORM_FOR: Final = 1.0
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


@dataclass(slots=True)
class Demand:
    """What the last claims of a replica have found. A claim that relies on it checks it."""

    is_scarce: bool = False
    # A tenant has reached its quota of starts in this minute.
    is_at_quota: bool = False
    # When all tenants had pending executions of one priority only.
    _uniform_at: float | None = None

    def may_be_mixed(self) -> bool:
        """Return whether to check the priorities of pending executions again."""
        return self._uniform_at is None or monotonic() - self._uniform_at > _UNIFORM_FOR

    def note_uniform(self) -> None:
        """Record that a check found nothing."""
        self._uniform_at = monotonic()
