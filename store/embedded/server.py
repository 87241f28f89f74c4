"""A PostgreSQL server for a machine without one, in `.tenantcron/` of the working folder.

Any number of processes share one server. Two lock files coordinate them. The kernel releases both
when a process dies, so there is no list of process ids that could become stale:

- `lock`, exclusive: held while a process starts or stops the server.
- `users`, shared: held while a process uses the server. A process that leaves and can lock it
  exclusively was the last user, and stops the server.

Failures:

- A process exits at the second signal: it leaves the server first (`ending`).
- A process is killed: its locks are released, and the server keeps running. The next command uses
  it, and stops it when it leaves.
- A process is killed while it creates the folder: the folder has another name until it is complete,
  so a partial one is never used.
- A process is killed while the server starts: the next process waits for the server.
- The server is killed: PostgreSQL recovers at the next start.
- The machine or container restarts, and the process id in `postmaster.pid` belongs to another
  process now. The server would not start, so the file is removed if no server responds.

The server keeps its durable defaults (fsync) and only listens on a socket. Every user who may enter
its folder can connect: the user that started it.
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
    """Start the server of the folder, or join it; the last user to leave stops it."""
    use = ServerUse(working_folder.resolve() / FOLDER)
    _in_use.add(use)
    try:
        yield await asyncio.to_thread(use.join)
    finally:
        # Waits for an interrupted start, then undoes it.
        await asyncio.to_thread(use.leave)
        _in_use.discard(use)


def leave_all() -> None:
    """Leave the servers that this process uses, for an immediate exit."""
    for use in tuple(_in_use):
        use.leave()


@dataclass(slots=True, eq=False)
class ServerUse:
    """The use of a folder's server by one process."""

    home: Path
    # The programs of the server, if not those of the extra.
    programs: Path | None = None
    _users: IO[bytes] | None = field(default=None, init=False)
    # If a command is interrupted, `leave` may run before `join`, which must then do nothing.
    _left: bool = field(default=False, init=False)

    def join(self) -> DatabaseTarget:
        """Ensure that the server runs, and register as one of its users."""
        cluster = cluster_in(self.home / DATA, self.programs)
        _make_home(self.home)
        with _exclusive(self.home / "lock"):
            if self._left:
                raise EmbeddedServerError("interrupted before the embedded server was started")
            self._users = (self.home / "users").open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            return cluster.ensure_running()

    def leave(self) -> None:
        """Unregister as a user; stop the server if there is no other user."""
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
    """Create the folder, with a .gitignore that excludes the data from commits."""
    try:
        home.mkdir(exist_ok=True)
        (home / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise EmbeddedServerError(
            f"{home} is not writable ({error.strerror}): run in a writable folder, "
            "or set TENANTCRON_DATABASE_URL"
        ) from error


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    with file.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _was_the_last(users: IO[bytes]) -> bool:
    """Whether no other process holds the shared lock; ours is released either way."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
