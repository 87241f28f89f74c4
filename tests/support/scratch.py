"""Where a run of the tests keeps its files: in memory, where there is room enough for them.

A copy of a database is some three hundred small files. On a disk they are most of what a test on a
database costs, and nothing here outlives the run.
"""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 -- every file in it is made by `tempfile`
# A run with two workers needs about a quarter of it. A container may have 64 MB of such memory.
_ROOM = 2 * 1024**3


def prefer_memory() -> None:
    """Have temporary files made in memory, here and in all processes started from now on.

    Whoever says TMPDIR has decided.
    """
    if "TMPDIR" in os.environ or not _has_room(_MEMORY):
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # it remembers what it found before


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= _ROOM
