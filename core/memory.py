"""Memory use of a process, and how often it collects garbage."""

import gc
import os
from pathlib import Path
from typing import Final

# The threshold for a command that processes a fleet and exits.
FLEET = 200_000


_STATM: Final = Path("/proc/self/statm")


def can_measure() -> bool:
    """Whether the system reports the memory use of this process."""
    return _STATM.exists()


def resident() -> int:
    """Return the resident memory of this process in bytes, shared pages included."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def collect_rarely(objects: int = 30_000) -> None:
    """Collect garbage after this many new objects: cycles are rare, and a search is expensive."""
    gc.set_threshold(objects, 20, 20)
