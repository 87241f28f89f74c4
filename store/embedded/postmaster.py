"""The running server of a data folder, as its `postmaster.pid` describes it.

Nothing here imports a database driver: the watcher process stays small.
"""

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PORT = "5432"
SOCKET = f".s.PGSQL.{PORT}"
_PATIENCE = 60.0
_POLL_INTERVAL = 0.02
_PID_LINE, _SOCKETS_LINE, _STATUS_LINE = 0, 4, 7


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The main process of a server: its id, socket folder and status."""

    pid: int
    sockets: str
    status: str

    @property
    def responds(self) -> bool:
        """Whether it accepts connections; a killed server leaves its socket file behind."""
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(Path(self.sockets) / SOCKET))
            except OSError:
                return False
        return True


def running_in(data: Path) -> Postmaster | None:
    """Return the server of a data folder if it responds; wait for one that is starting."""
    patience = time.monotonic() + _PATIENCE
    while time.monotonic() < patience:
        found = recorded_in(data)
        if found is None or not found.responds:
            return None
        if found.status == "ready":
            return found
        time.sleep(_POLL_INTERVAL)
    return None


def recorded_in(data: Path) -> Postmaster | None:
    """Read `postmaster.pid`; None if it is missing or incomplete."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        status = lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""
        return Postmaster(int(lines[_PID_LINE]), lines[_SOCKETS_LINE], status)
    except (FileNotFoundError, ValueError, IndexError):
        return None


def is_server_of(pid: int, data: Path) -> bool:
    """Whether a process is the server of a data folder that was moved: it still works inside it.

    Only Linux shows the working folder of another process.
    """
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        return False


def end(pid: int) -> None:
    """End a server at once; it recovers at its next start."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)
