"""The watcher: stops the embedded server after no process has used it for a while.

It is a small process without a terminal. It outlives the command that started it, and ends with its
server. `server` describes the protocol.
"""

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tenantcron.store.embedded.data_folder import cluster_in, plain_environment
from tenantcron.store.embedded.home import Home, try_lock
from tenantcron.store.embedded.postmaster import end, running_in

# How soon a removed folder is noticed. Creating a new one takes longer.
_LONGEST_INTERVAL = 0.5
# The shell ends at once, so that the watcher is not a child of the command and leaves no zombie.
_DETACH = ("/bin/sh", "-c", '"$@" &', "sh")
# Python without the working folder in its path.
_PYTHON = (sys.executable, "-P", "-m", "tenantcron.store.embedded.watcher")


def ensure_watcher(home: Home, linger: float, programs: Path | None) -> None:
    """Start the watcher unless one is running. Call it with the exclusive lock.

    The watcher inherits its own lock, so there is no moment without it.
    """
    with home.watcher.open("ab") as own, home.watcher_log.open("ab") as log:
        if not try_lock(own):
            return
        log.truncate(0)
        number = own.fileno()
        arguments = [
            str(home.folder),
            str(linger),
            str(number),
            *([str(programs)] if programs else []),
        ]
        subprocess.run(  # noqa: S603 -- this module, by its name
            [*_DETACH, *_PYTHON, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd="/",
            env=plain_environment() | _import_path(),
            pass_fds=[number],
            start_new_session=True,
        )


def await_watcher(home: Home) -> None:
    """Wait until there is no watcher."""
    with home.watcher.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def _import_path() -> dict[str, str]:
    """Return the variable that lets the watcher find this package."""
    path = os.environ.get("PYTHONPATH")
    return {} if path is None else {"PYTHONPATH": path}


@dataclass(slots=True)
class Watcher:
    """Watches one server until it has stopped."""

    home: Home
    # Seconds without a user after which the server is stopped.
    linger: float
    own: IO[bytes]
    programs: Path | None = None
    _pid: int | None = field(default=None, init=False)

    def run(self) -> None:
        """Look at the server at intervals."""
        interval = min(self.linger / 4, _LONGEST_INTERVAL)
        while self._continues():
            time.sleep(interval)

    def _continues(self) -> bool:
        try:
            if not self._owns_folder():
                return self._end_orphan()
            with self.home.exclusive():
                return self._look()
        except FileNotFoundError:
            return self._end_orphan()

    def _look(self) -> bool:
        """Stop an idle server; release the own lock before others may start a server again."""
        running = running_in(self.home.data)
        if running is not None:
            self._pid = running.pid
            if self.home.has_users() or self._idle_seconds() < self.linger:
                return True
            cluster_in(self.home.data, self.programs).stop()
        self.own.close()
        return False

    def _idle_seconds(self) -> float:
        """Return the time since the last user joined or left.

        A user that was killed did not record its end. Then the time counts from its start.
        """
        idle = time.time() - self.home.users.stat().st_mtime
        if idle < 0:  # the clock was set back
            os.utime(self.home.users)
            return 0
        return idle

    def _owns_folder(self) -> bool:
        """Whether the folder is still the one that this watcher was started for."""
        return os.path.samestat(self.home.watcher.stat(), os.fstat(self.own.fileno()))

    def _end_orphan(self) -> bool:
        """End the server of a folder that was removed or moved: no command can reach it there."""
        if self._pid is not None:
            end(self._pid)
        return False


def main(arguments: list[str]) -> None:
    """Watch the server of a folder: FOLDER SECONDS DESCRIPTOR [PROGRAMS]."""
    folder, linger, number, *programs = arguments
    with os.fdopen(int(number), "ab") as own:
        place = Path(programs[0]) if programs else None
        Watcher(Home(Path(folder)), float(linger), own, place).run()


if __name__ == "__main__":
    main(sys.argv[1:])
