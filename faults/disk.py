"""A small file system under a data folder that can be filled up and freed again.

It is a tmpfs. Setting its size to the space in use fills it at once and takes no memory. Mounting
needs root: without it the fault is skipped, and the run says so.
"""

import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SIZE = 4 << 30
_PAGE = 1 << 12
# Postgres may write between reading the used space and changing the size.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted folder."""

    folder: Path

    def mount(self) -> None:
        """Mount the file system on the folder."""
        options = ("-t", "tmpfs", "-o", f"size={_SIZE},mode=0755", "tenantcron-faults")
        _mount(*options, str(self.folder), check=True)

    def fill(self) -> bool:
        """Leave no free space; return whether that worked."""
        for number in range(_TRIES):
            found = os.statvfs(self.folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize + number * _PAGE
            if not _mount("-o", f"remount,size={used}", str(self.folder)):
                return True
        return False

    def free(self) -> None:
        """Free the space again."""
        _mount("-o", f"remount,size={_SIZE}", str(self.folder), check=True)

    def close(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)  # noqa: S607 -- a system command


@cache
def can_mount() -> bool:
    """Whether this account may mount a file system here."""
    with tempfile.TemporaryDirectory() as folder, suppress(OSError):
        disk = Disk(Path(folder))
        try:
            disk.mount()
        except subprocess.CalledProcessError:
            return False
        disk.close()
        return True
    return False


def _mount(*arguments: str, check: bool = False) -> int:
    command = ["mount", *arguments]
    return subprocess.run(command, capture_output=True, check=check).returncode
