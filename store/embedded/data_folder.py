"""The data folder of the embedded server and the program that serves it.

The extra brings the programs only. How they run is decided here: on a folder that is whole or not
there at all, under any path, without the locale and the PG* variables of the environment.
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
# The operating system cuts a socket's path at 104 bytes or a little more.
_LONGEST_SOCKET_PATH = 100
_PATIENCE = 60.0
_GLANCE = 0.02
# Between the attempts to start.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One data folder. Callers take care that only one of them starts or stops it at a time."""

    data: Path
    programs: Path
    account: Account

    def ensure_running(self) -> DatabaseTarget:
        """Make the data folder if it is new, start the server if none answers."""
        if not self.data.exists():
            self._initialise()
        sockets = self._sockets_of_running() or self._start()
        return DatabaseTarget(
            DEFAULTS | {"host": sockets, "port": _PORT, "user": "postgres", "dbname": "postgres"}
        )

    def stop(self) -> None:
        """Stop the server; one that does not answer is left alone, its pid proves nothing."""
        if sockets := self._sockets_of_running():
            self._run("pg_ctl", "-w", "-m", "fast", "-D", str(self.data), "stop")
            if Path(sockets) != self.data:
                shutil.rmtree(sockets, ignore_errors=True)

    def _initialise(self) -> None:
        """Build the folder under another name: killed half-way, it is not taken for a whole one."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.account.hand_over(draft)
        trust = ("--auth=trust", "--username=postgres")
        text = ("--no-locale", "--encoding=UTF8")
        done = self._run("initdb", *trust, *text, "-D", str(draft))
        if done.returncode:
            raise EmbeddedServerError(f"the embedded database cannot be made: {done.stdout}")
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
            # What a killed server leaves behind needs a moment to notice that it is alone.
            time.sleep(pause)
        raise EmbeddedServerError(
            f"the embedded server does not start: {self._last_words()}. All of it is in {self._log}"
        )

    def _discard_foreign_pid(self) -> None:
        """Remove a `postmaster.pid` whose process lives and is no server, for none answers.

        The server takes such a process for itself and does not start. The file of a dead process
        stays: it is how the server finds out that parts of the one before are still there.
        """
        file = self.data / "postmaster.pid"
        with suppress(OSError, ValueError, IndexError):
            os.kill(int(file.read_text(encoding="utf-8").splitlines()[0]), 0)
            file.unlink()

    def _sockets_of_running(self) -> str | None:
        """Return the socket folder of the server that answers; wait for one that is starting."""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            folder, status = self._postmaster()
            if folder is None or not _answers(Path(folder)):
                return None
            if status == "ready":
                return folder
            time.sleep(_GLANCE)
        return None

    def _postmaster(self) -> tuple[str | None, str]:
        """Read `postmaster.pid`: the socket folder is its fifth line, the status its eighth."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None, ""
        return (lines[4] if len(lines) > 4 else None), (lines[7].strip() if len(lines) > 7 else "")

    def _socket_folder(self) -> Path:
        """The data folder itself, or one under the temporary folder if that path is too long."""
        if len(os.fsencode(self.data / _SOCKET)) <= _LONGEST_SOCKET_PATH:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"tenantcron-{digest}"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            self.account.hand_over(folder)
        if not self.account.owns(folder):
            raise EmbeddedServerError(f"{folder} belongs to somebody else: remove it")
        return folder

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the server; its output goes to a file, as a pipe would never end."""
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

    def _last_words(self) -> str:
        if not self._log.exists():
            return "it says nothing"
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if "FATAL" in line), "no error is in its log")


def cluster_in(data: Path, others: Path | None = None) -> Cluster:
    """Return the cluster of a data folder that may not exist yet.

    It is served by the programs of the extra, or by others that are named.
    """
    account, place = server_account(), others or programs(data)
    account.let_use(place)
    return Cluster(data, place, account)


def _answers(folder: Path) -> bool:
    """Whether somebody listens on the socket; a server that is gone leaves its file behind."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(folder / _SOCKET))
        except OSError:
            return False
    return True


# What the programs of a server need to run at all. Everything else may be a secret of ours, and
# each process of the server would keep it for as long as it runs.
_INHERITED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZDIR")


def _environment() -> dict[str, str]:
    """English messages, no locale that may not be installed, no secret and no PGPORT of a shell."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return kept | {"LC_ALL": "C"}
