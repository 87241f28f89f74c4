"""A PostgreSQL server for a machine without one, in `.tenantcron/` of the working folder.

Any number of processes share one server. It keeps running for a while after its last user has left
(the setting `embedded_linger`), because the next command usually follows soon. A small process, the
watcher, stops it then. Three lock files coordinate them. The kernel releases all of them when a
process dies, so there is no list of process ids that could become stale:

- `lock`, exclusive: held while a process starts, stops or examines the server.
- `users`, shared: held while a process uses the server. Its modification time is when a user last
  joined or left.
- `watcher`, exclusive: held by the watcher for its entire life.

Join, with `lock`: lock `users`, start a watcher unless `watcher` is locked, then start the server
unless one responds. The watcher comes first, so no kill leaves a server without a watcher.

Leave, with `lock`: touch `users` and release it. With a linger of zero, the last user also stops
the server; there is no watcher unless another command wanted one.

The watcher looks at the server twice a second, with `lock`. If there is no user, and the last one
left longer ago than the linger, it stops the server. It ends when the server has stopped, for
whatever reason, and releases `watcher` before `lock`. A process that joins meanwhile waits for
`lock`, finds neither, and starts both.

Failures:

- A process exits at the second signal: it leaves the server first (`ending`).
- A process is killed: its locks are released. The watcher stops the server later.
- A process is killed while it creates the folder: the folder has another name until it is complete,
  so a partial one is never used.
- A process is killed while the server starts: the next process waits for the server.
- The watcher is killed: the server keeps running. The next command starts another watcher.
- The server is killed: the watcher ends, and PostgreSQL recovers at the next start.
- The folder is removed or moved: the watcher ends the server. A command that comes first ends it
  too, because two servers must never share the data.
- The machine or container restarts, and the process id in `postmaster.pid` belongs to another
  process now. The server would not start, so the file is removed if no server responds.
- The command is the first process of a container (process 1): all others die with it, so it stops
  the server itself.

The server keeps its durable defaults (fsync) and only listens on a socket. Every user who may enter
its folder can connect: the user that started it.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import IO

from tenantcron.store.connection.database_urls import DEFAULTS, DatabaseTarget
from tenantcron.store.connection.errors import EmbeddedServerError
from tenantcron.store.embedded.data_folder import Cluster, cluster_in
from tenantcron.store.embedded.home import FOLDER, Home, touch, try_lock
from tenantcron.store.embedded.postmaster import PORT, running_in
from tenantcron.store.embedded.watcher import ensure_watcher

_FIRST_PROCESS = 1
_AT_ONCE = timedelta(0)


@asynccontextmanager
async def embedded_server(
    working_folder: Path, linger: timedelta = _AT_ONCE
) -> AsyncIterator[DatabaseTarget]:
    """Start the server of the folder, or join it; it stops when it was idle for the linger."""
    use = ServerUse(working_folder.resolve() / FOLDER, linger=linger)
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


class StopResult(Enum):
    """What came of the request to stop a server."""

    STOPPED = auto()
    NOT_RUNNING = auto()
    IN_USE = auto()


def stop_idle_server(working_folder: Path) -> StopResult:
    """Stop the server of the folder now, unless a process uses it."""
    home = Home(working_folder.resolve() / FOLDER)
    if not home.lock.exists():
        return StopResult.NOT_RUNNING
    with home.exclusive():
        if running_in(home.data) is None:
            return StopResult.NOT_RUNNING
        if home.has_users():
            return StopResult.IN_USE
        cluster_in(home.data).stop()
    return StopResult.STOPPED


@dataclass(slots=True, eq=False)
class ServerUse:
    """The use of a folder's server by one process."""

    home: Path
    # The programs of the server, if not those of the extra.
    programs: Path | None = None
    # How long the server runs without a user.
    linger: timedelta = _AT_ONCE
    _users: IO[bytes] | None = field(default=None, init=False)
    # If a command is interrupted, `leave` may run before `join`, which must then do nothing.
    _left: bool = field(default=False, init=False)

    def join(self) -> DatabaseTarget:
        """Ensure that the server runs, and register as one of its users."""
        home = Home(self.home)
        if not home.lock.exists():
            # Without the extra, nothing is created.
            self._cluster(home)
            _create(home)
        with home.exclusive():
            if self._left:
                raise EmbeddedServerError("interrupted before the embedded server was started")
            self._users = home.users.open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            touch(self._users)
            if self._lingers:
                ensure_watcher(home, self.linger.total_seconds(), self.programs)
            running = running_in(home.data)
            return _target(running.sockets if running else self._cluster(home).start())

    def leave(self) -> None:
        """Unregister as a user; without a linger, stop the server if there is no other user."""
        self._left = True
        home = Home(self.home)
        if not home.lock.exists():
            return
        with home.exclusive():
            if self._users is None:
                return
            with self._users as users:
                self._users = None
                touch(users)
                if not self._lingers and try_lock(users):
                    self._cluster(home).stop()

    @property
    def _lingers(self) -> bool:
        return self.linger > _AT_ONCE and os.getpid() != _FIRST_PROCESS

    def _cluster(self, home: Home) -> Cluster:
        return cluster_in(home.data, self.programs)


_in_use: set[ServerUse] = set()


def _target(sockets: str) -> DatabaseTarget:
    return DatabaseTarget(
        DEFAULTS | {"host": sockets, "port": PORT, "user": "postgres", "dbname": "postgres"}
    )


def _create(home: Home) -> None:
    try:
        home.create()
    except OSError as error:
        raise EmbeddedServerError(
            f"{home.folder} is not writable ({error.strerror}): run in a writable folder, "
            "or set TENANTCRON_DATABASE_URL"
        ) from error
