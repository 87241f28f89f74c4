"""The data folder of the embedded server, and starting and stopping the server.

The extra only contains the programs. They run on a folder that is either complete or absent, under
any path, without the locale and the PG* variables of the environment.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenantcron.store.connection.errors import EmbeddedServerError
from tenantcron.store.embedded.binaries import programs
from tenantcron.store.embedded.os_users import Account, server_account
from tenantcron.store.embedded.postmaster import (
    PORT,
    SOCKET,
    end,
    is_server_of,
    recorded_in,
    running_in,
)

# Operating systems limit the path of a socket to 104 bytes or slightly more.
_LONGEST_SOCKET_PATH = 100
_PATIENCE = 60.0
# Between attempts to start.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data folder. Callers must ensure that only one of them starts or stops it at a time."""

    data: Path
    programs: Path
    account: Account

    def start(self) -> str:
        """Create the data folder if it is missing, start the server, return its socket folder."""
        if not self.data.exists():
            self._initialise()
        sockets = self._socket_folder()
        options = shlex.join(["-h", "", "-k", str(sockets), "-p", PORT])
        command = ("-w", "-t", str(int(_PATIENCE)), "-D", str(self.data), "-l", str(self._log))
        for pause in _PAUSES:
            self._run("pg_ctl", *command, "-o", options, "start")
            if running := running_in(self.data):
                return running.sockets
            self._discard_foreign_pid()
            # Child processes of a killed server need a moment to exit.
            time.sleep(pause)
        raise EmbeddedServerError(
            f"the embedded server does not start: {self._last_error()}. The log is {self._log}"
        )

    def stop(self) -> None:
        """Stop the server if it responds; a process id alone may belong to another process."""
        if running := running_in(self.data):
            self._run("pg_ctl", "-w", "-m", "fast", "-D", str(self.data), "stop")
            if Path(running.sockets) != self.data:
                shutil.rmtree(running.sockets, ignore_errors=True)

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

    def _discard_foreign_pid(self) -> None:
        """Remove a `postmaster.pid` whose process is alive but not a server, since none responds.

        The server would mistake this process for a server and not start. The file of a dead process
        stays: the server needs it to detect remaining processes of the previous server. A server of
        this folder that does not respond was moved together with the folder, and is ended.
        """
        found = recorded_in(self.data)
        if found is None:
            return
        if is_server_of(found.pid, self.data):
            end(found.pid)
            return
        with suppress(OSError):
            os.kill(found.pid, 0)
            (self.data / "postmaster.pid").unlink()

    def _socket_folder(self) -> Path:
        """Return the data folder, or a temporary folder if the path of the socket is too long."""
        if len(os.fsencode(self.data / SOCKET)) <= _LONGEST_SOCKET_PATH:
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
                env=plain_environment(),
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


# The variables that the programs of a server need. Others may contain our secrets, and each process
# of the server would keep them for as long as it runs.
_INHERITED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZDIR")


def plain_environment() -> dict[str, str]:
    """Return an environment with English messages, and without secrets or PG* variables."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return kept | {"LC_ALL": "C"}
