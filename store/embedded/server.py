"""A real PostgreSQL for a machine without one, kept under `.tenantcron/` of the working folder.

Any number of processes share one server. Two lock files say who is doing what; the kernel lets go
of both when a process dies, however it dies, so that no list of process ids can go stale:

- `lock`, exclusive: held while a process starts or stops the server, so one at a time.
- `users`, shared: held as long as a process uses the server. Whoever leaves and can have it
  exclusively was the last, and stops the server.

What can go wrong:

- A process ends at the second signal: it leaves the server first (`ending`).
- A process is killed: its locks go, the server stays. The next command finds and uses it, and stops
  it when it leaves.
- Killed while the folder was being set up: that happens under another name, so a half-made folder
  is never taken for a whole one.
- Killed while the server was starting: the next one waits for it.
- The server is killed: PostgreSQL recovers at the next start, by itself.
- The machine or container restarts, and the process id in `postmaster.pid` is somebody else's now:
  the server would not start because of it, so the file is removed if nobody answers.

The server keeps its durable defaults (fsync), listens on a socket only, and lets in whoever may
enter its folder: the user that started it.
"""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.errors import EmbeddedServerError
from tenantcron.store.embedded.data_folder import cluster_in

FOLDER = ".tenantcron"
DATA = "postgres"


@asynccontextmanager
async def embedded_server(working_folder: Path) -> AsyncIterator[DatabaseTarget]:
    """Start the server of the folder, or join it; leave it at the end, the last one stops it."""
    use = ServerUse(working_folder.resolve() / FOLDER)
    _in_use.add(use)
    try:
        yield await asyncio.to_thread(use.join)
    finally:
        # Waits for a start that was interrupted half-way, then undoes it.
        await asyncio.to_thread(use.leave)
        _in_use.discard(use)


def leave_all() -> None:
    """Leave the servers that this process uses, for an end without the usual steps."""
    for use in tuple(_in_use):
        use.leave()


@dataclass(slots=True, eq=False)
class ServerUse:
    """One user's share in the server of a folder."""

    home: Path
    # Those of another server than the extra's.
    programs: Path | None = None
    _users: IO[bytes] | None = field(default=None, init=False)
    # Leaving can overtake joining when a command is interrupted: then joining must not happen.
    _left: bool = field(default=False, init=False)

    def join(self) -> DatabaseTarget:
        """Make sure that the server runs, and count as one of its users."""
        cluster = cluster_in(self.home / DATA, self.programs)
        _make_home(self.home)
        with _exclusive(self.home / "lock"):
            if self._left:
                raise EmbeddedServerError("interrupted before the embedded server was started")
            self._users = (self.home / "users").open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            return cluster.ensure_running()

    def leave(self) -> None:
        """Stop counting as a user; stop the server if nobody is left."""
        self._left = True
        if not (self.home / "lock").exists():
            return
        with _exclusive(self.home / "lock"):
            if self._users is None:
                return
            with self._users as users:
                self._users = None
                if _was_the_last(users):
                    cluster_in(self.home / DATA, self.programs).stop()


_in_use: set[ServerUse] = set()


def _make_home(home: Path) -> None:
    """Make the folder, with a .gitignore so that nobody commits the data."""
    try:
        home.mkdir(exist_ok=True)
        (home / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise EmbeddedServerError(
            f"{home} cannot be written ({error.strerror}): run in a folder of your own, "
            "or set TENANTCRON_DATABASE_URL"
        ) from error


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    with file.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _was_the_last(users: IO[bytes]) -> bool:
    """Whether nobody else holds the shared lock; ours is gone after this, either way."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
