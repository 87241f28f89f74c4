"""The pause of a schedule.

An operator sets and lifts a pause, or the scheduler sets one after repeated failures; a manifest
does neither. A pause ends by itself at `until`. An occurrence at that very moment fires.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

# The reason of a pause that the scheduler sets.
AUTO_PAUSED: Final = "auto:consecutive_failures"
_AUTO_PAUSED_TEXT: Final = "repeated failures"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause as recorded, which may have ended."""

    at: datetime
    by: str
    reason: str
    until: datetime | None

    def is_in_force(self, moment: datetime) -> bool:
        """Whether the schedule is paused at a moment."""
        return self.until is None or moment < self.until


def pause_text(reason: str | None) -> str:
    """Return why a schedule is paused, in words."""
    return _AUTO_PAUSED_TEXT if reason == AUTO_PAUSED else reason or ""


def recorded_pause(
    at: datetime | None, by: str | None, reason: str | None, until: datetime | None
) -> Pause | None:
    """Return the pause of a cursor's columns; rows can be edited manually, so texts may be null."""
    return None if at is None else Pause(at, by or "", reason or "", until)


def in_force(pause: Pause | None, moment: datetime) -> Pause | None:
    """Return a pause that holds at a moment, else None."""
    return pause if pause is not None and pause.is_in_force(moment) else None
