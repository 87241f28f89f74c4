"""How a process uses memory."""

import gc
import os
from pathlib import Path
from typing import Final

# For a command that works through a fleet and ends.
FLEET = 200_000


_STATM: Final = Path("/proc/self/statm")


def can_measure() -> bool:
    """Whether the system tells how much memory this process has."""
    return _STATM.exists()


def resident() -> int:
    """Return the bytes of memory that this process has now, shared ones included."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def collect_rarely(objects: int = 30_000) -> None:
    """Look for cycles after so many new objects: they are few, and looking costs a quarter."""
    gc.set_threshold(objects, 20, 20)
