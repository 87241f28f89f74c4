"""The data folder of the embedded server, and starting and stopping the server.

The extra only contains the programs. They run on a folder that is either complete or absent, under
any path, without the locale and the PG* variables of the environment.
"""

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenantcron.store.connection.database_urls import DEFAULTS, DatabaseTarget
from tenantcron.store.connection.errors import EmbeddedServerError
from tenantcron.store.embedded.binaries import programs
from tenantcron.store.embedded.os_users import Account, server_account

_PORT = "5432"
_SOCKET = f".s.PGSQL.{_PORT}"
# Operating systems limit the path of a socket to 104 bytes or slightly more.
_LONGEST_SOCKET_PATH = 100
_PATIENCE = 60.0
_POLL_INTERVAL = 0.02
# Between attempts to start.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data folder. Callers must ensure that only one of them starts or stops it at a time."""

    data: Path
    programs: Path
    account: Account

    def ensure_running(self) -> DatabaseTarget:
        """Create the data folder if it is missing, and start the server if none is running."""
        if not self.data.exists():
            self._initialise()
        sockets = self._sockets_of_running() or self._start()
        return DatabaseTarget(
            DEFAULTS | {"host": sockets, "port": _PORT, "user": "postgres", "dbname": "postgres"}
        )

    def stop(self) -> None:
        """Stop the server if it responds; a process id alone may belong to another process."""
        if sockets := self._sockets_of_running():
            self._run("pg_ctl", "-w", "-m", "fast", "-D", str(self.data), "stop")
            if Path(sockets) != self.data:
                shutil.rmtree(sockets, ignore_errors=True)

    def _initialise(self) -> None:
        """Create the folder under another name, so that a partial one is never used."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.account.hand_over(draft)
        trust = ("--auth=trust", "--username=postgres")
        text = ("--no-locale", "--encoding=UTF8")
        done = self._run("initdb", *trust, *text, "-D", str(draft))
        if done.returncode:
            raise EmbeddedServerError(f"the embedded database cannot be created: {done.stdout}")
        draft.rename(self.data)

    def _start(self) -> str:
        sockets = self._socket_folder()
        options = shlex.join(["-h", "", "-k", str(sockets), "-p", _PORT])
        command = ("-w", "-t", str(int(_PATIENCE)), "-D", str(self.data), "-l", str(self._log))
        for pause in _PAUSES:
            self._run("pg_ctl", *command, "-o", options, "start")
            if running := self._sockets_of_running():
                return running
            self._discard_foreign_pid()
            # Child processes of a killed server need a moment to exit.
            time.sleep(pause)
        raise EmbeddedServerError(
            f"the embedded server does not start: {self._last_error()}. The log is {self._log}"
        )

    def _discard_foreign_pid(self) -> None:
        """Remove a `postmaster.pid` whose process is alive but not a server, since none responds.

        The server would mistake this process for a server and not start. The file of a dead process
        stays: the server needs it to detect remaining processes of the previous server.
        """
        file = self.data / "postmaster.pid"
        with suppress(OSError, ValueError, IndexError):
            os.kill(int(file.read_text(encoding="utf-8").splitlines()[0]), 0)
            file.unlink()

    def _sockets_of_running(self) -> str | None:
        """Return the socket folder of the running server; wait for one that is starting."""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            folder, status = self._postmaster()
            if folder is None or not _answers(Path(folder)):
                return None
            if status == "ready":
                return folder
            time.sleep(_POLL_INTERVAL)
        return None

    def _postmaster(self) -> tuple[str | None, str]:
        """Read `postmaster.pid`: the socket folder is its fifth line, the status its eighth."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None, ""
        return (lines[4] if len(lines) > 4 else None), (lines[7].strip() if len(lines) > 7 else "")

    def _socket_folder(self) -> Path:
        """Return the data folder, or a temporary folder if the path of the socket is too long."""
        if len(os.fsencode(self.data / _SOCKET)) <= _LONGEST_SOCKET_PATH:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"tenantcron-{digest}"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            self.account.hand_over(folder)
        if not self.account.owns(folder):
            raise EmbeddedServerError(f"{folder} belongs to another user: remove it")
        return folder

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the server; capture output in a file, since a pipe would stay open."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            done = subprocess.run(  # noqa: S603 -- a program of the wheel, by its path
                [self.programs / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(),
                check=False,
                **self.account.switch(),
            )
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read())

    @property
    def _log(self) -> Path:
        return self.data / "log"

    def _last_error(self) -> str:
        if not self._log.exists():
            return "there is no log"
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if "FATAL" in line), "its log has no error")


def cluster_in(data: Path, others: Path | None = None) -> Cluster:
    """Return the cluster of a data folder that may not exist yet.

    It uses the programs of the extra, or the given ones.
    """
    account, place = server_account(), others or programs(data)
    account.let_use(place)
    return Cluster(data, place, account)


def _answers(folder: Path) -> bool:
    """Whether a server accepts connections; a killed server leaves its socket file behind."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(folder / _SOCKET))
        except OSError:
            return False
    return True


# The variables that the programs of a server need. Others may contain our secrets, and each process
# of the server would keep them for as long as it runs.
_INHERITED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZDIR")


def _environment() -> dict[str, str]:
    """Return an environment with English messages, and without secrets or PG* variables."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return kept | {"LC_ALL": "C"}
