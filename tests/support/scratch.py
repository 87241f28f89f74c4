"""The temporary files of a test run: in memory, if there is enough space.

A copy of a database is about three hundred small files. On a disk they are most of the cost of a
database test, and nothing here outlives the run.
"""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 -- every file in it is made by `tempfile`
# A run with two workers needs about a quarter of it. A container may have only 64 MB of it.
_ROOM = 2 * 1024**3


def prefer_memory() -> None:
    """Create temporary files in memory, here and in all processes started from now on.

    TMPDIR takes precedence if it is set.
    """
    if "TMPDIR" in os.environ or not _has_room(_MEMORY):
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # clear its cache


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= _ROOM
