"""The folder `.tenantcron/` of the embedded server, and the lock files in it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FOLDER = ".tenantcron"
DATA = "postgres"


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one server. `server` describes the protocol of the locks."""

    folder: Path

    @property
    def data(self) -> Path:
        """The data folder of the server."""
        return self.folder / DATA

    @property
    def lock(self) -> Path:
        """Locked exclusively while a process starts, stops or examines the server."""
        return self.folder / "lock"

    @property
    def users(self) -> Path:
        """Locked shared by each process that uses the server; its age is the idle time."""
        return self.folder / "users"

    @property
    def watcher(self) -> Path:
        """Locked exclusively by the watcher, from before it starts until it ends."""
        return self.folder / "watcher"

    @property
    def watcher_log(self) -> Path:
        """What the watcher printed; normally nothing."""
        return self.folder / "watcher.log"

    def create(self) -> None:
        """Create the folder, with a .gitignore that excludes the data from commits."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        # The lock is the last one: where it exists, all of them do.
        for file in (self.users, self.watcher, self.lock):
            file.touch()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the exclusive lock."""
        with _existing(self.lock) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def has_users(self) -> bool:
        """Whether a process uses the server. Call it with the exclusive lock."""
        with _existing(self.users) as users:
            return not try_lock(users)


def is_set_up(working_folder: Path) -> bool:
    """Whether the folder has an embedded server, running or not."""
    return Home(working_folder.resolve() / FOLDER).lock.exists()


def _existing(file: Path) -> IO[bytes]:
    """Open a lock file. Creating it would disturb a user who is removing the folder."""
    return file.open("r+b")


def try_lock(file: IO[bytes]) -> bool:
    """Lock a file exclusively, unless another process has locked it; a shared lock is replaced."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def touch(file: IO[bytes]) -> None:
    """Set the modification time of an open file to now."""
    os.utime(file.fileno())
