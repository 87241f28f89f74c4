"""A Postgres server of a run: create, start, stop, kill, freeze, copy and promote it.

It runs under an account that is not root, listens on loopback only, and writes its log outside its
data folder, which a fault may fill up. Its port is below the ephemeral ports of the kernel.
Otherwise a client could take the port while the server is down.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import SystemRandom
from time import monotonic, sleep

from tenantcron.store.embedded.binaries import programs
from tenantcron.store.embedded.os_users import Account

DEBIAN = Path("/usr/lib/postgresql/15/bin")
# Seconds until a server has started, recovered or been promoted; long, for busy machines.
TIMEOUT = 90
_POLL_INTERVAL = 0.02
_PORTS = range(20_000, 32_000)
# Killed schedulers leave connections behind for a moment, so allow more of them.
_CONNECTIONS = {"max_connections": "400"}
_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "'4GB'",
    "shared_buffers": "'128MB'",
}


class HarnessError(Exception):
    """The run cannot continue, and has no verdict on the product."""


class Kind(StrEnum):
    """Which server a run uses."""

    EMBEDDED = "embedded"
    DEBIAN = "debian"

    def programs(self) -> Path:
        """Return the folder of its binaries."""
        if self is Kind.EMBEDDED:
            return programs(Path("nowhere"))
        if not (DEBIAN / "postgres").exists():
            raise SystemExit(
                f"Debian's PostgreSQL 15 is not in {DEBIAN}: install it with `apt-get install"
                " postgresql-15`, or use the embedded server with `--database embedded`"
            )
        return DEBIAN

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings that differ from the defaults; the stock server keeps the defaults."""
        return _CONNECTIONS | _FAST if self is Kind.EMBEDDED else _CONNECTIONS


@dataclass(frozen=True, slots=True)
class Server:
    """A server with its own data folder and port."""

    programs: Path
    account: Account
    data: Path
    log: Path
    port: int

    @property
    def url(self) -> str:
        """The URL for a client of this server only."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def initialise(self, settings: Mapping[str, str]) -> None:
        """Create its data folder."""
        options = ("--auth=trust", "--username=postgres", "--no-locale", "--encoding=UTF8")
        done = self._run("initdb", *options, "-D", str(self.data))
        if done.returncode:
            raise HarnessError(f"initdb failed: {done.stdout}")
        self.configure(settings)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add settings for the next start."""
        with (self.data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it and wait until it responds; leave a running server as it is."""
        if self.is_running():
            return
        options = f"-h 127.0.0.1 -p {self.port} -k ''"
        common = ("-w", "-t", str(TIMEOUT), "-D", str(self.data), "-l", str(self.log))
        for _ in range(5):
            done = self._run("pg_ctl", *common, "-o", options, "start")
            if self.is_running():
                return
            # Processes of a killed server take a moment to exit.
            sleep(0.3)
        raise HarnessError(f"Postgres does not start: {done.stdout}{self.log_tail()}")

    def stop(self, mode: str) -> None:
        """Stop it; `immediate` is like a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "-D", str(self.data), "stop")

    def is_running(self) -> bool:
        """Whether it accepts connections, after a wait if it is starting or recovering."""
        deadline = monotonic() + TIMEOUT
        while monotonic() < deadline:
            if not self._answers():
                return False
            status = self._pid_file()[7:8]
            if status and status[0].strip() in ("ready", "standby"):
                return True
            sleep(_POLL_INTERVAL)
        return False

    def kill(self) -> None:
        """Kill all its processes at once, as in a power failure."""
        pids, segment = list(self._processes()), self._pid_file()[6:7]
        for pid in pids:
            _send(pid, signal.SIGKILL)
        deadline = monotonic() + 10.0
        while any(map(_is_alive, pids)) and monotonic() < deadline:
            sleep(_POLL_INTERVAL)
        # A killed server cannot remove its shared memory, and its folder is not used again.
        if segment and shutil.which("ipcrm"):
            identity = segment[0].split()[-1]
            subprocess.run(["ipcrm", "-m", identity], capture_output=True, check=False)  # noqa: S607 -- a system command
        # Its process id may be reused from now on.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop all its processes: connections stay open, but nothing responds."""
        for pid in self._processes():
            _send(pid, signal.SIGSTOP)

    def promote(self) -> None:
        """Make a standby the primary, and wait until it accepts writes."""
        done = self._run("pg_ctl", "-w", "-t", str(TIMEOUT), "-D", str(self.data), "promote")
        if done.returncode:
            raise HarnessError(f"the standby was not promoted: {done.stdout}")

    def copy_of(self, other: "Server") -> subprocess.Popen[bytes]:
        """Start copying a running server; return the process that does it."""
        shutil.rmtree(self.data, ignore_errors=True)
        place = ("-h", "127.0.0.1", "-p", str(other.port), "-U", "postgres")
        options = ("-X", "stream", "-c", "fast", "-D", str(self.data))
        return subprocess.Popen(
            [str(self.programs / "pg_basebackup"), *place, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,
            **self.account.switch(),
        )

    def log_tail(self) -> str:
        """Return the end of its log."""
        return self._logged()[-1500:]

    def count_in_log(self, text: str) -> int:
        """Return how often its log contains a text."""
        return self._logged().count(text)

    def _logged(self) -> str:
        return self.log.read_text("utf-8", errors="replace") if self.log.exists() else ""

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def _pid_file(self) -> list[str]:
        """Return the lines of `postmaster.pid`: the pid, …, the shared memory, the status."""
        with suppress(FileNotFoundError):
            return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return []

    def _processes(self) -> Iterator[int]:
        """Yield the postmaster first, because it starts new processes, then its children."""
        lines = self._pid_file()
        if not lines:
            return
        postmaster = int(lines[0])
        if not _is_postgres(postmaster):
            return
        yield postmaster
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # The name is in parentheses and may contain spaces; the parent is the second field
                # after it.
                if int(file.read_text().rpartition(")")[2].split()[1]) == postmaster:
                    yield int(file.parent.name)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a server program; its output goes to a file, because the server keeps a pipe open."""
        output = self.log.with_suffix(".out")
        with output.open("w+", encoding="utf-8") as file:
            done = subprocess.run(
                [str(self.programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(),
                check=False,
                **self.account.switch(),
            )
            file.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, file.read())


def free_port() -> int:
    """Return a port that nothing listens on, outside the ephemeral ports."""
    ports = list(_PORTS)
    SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise HarnessError("there is no free port")


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_postgres(pid: int) -> bool:
    """Whether the process is a server: the pid in the file of a killed one may be reused."""
    with suppress(OSError):
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return re.search(r"^State:\s+[ZX]", status, re.MULTILINE) is None


def _environment() -> dict[str, str]:
    """Return an environment with English messages and without PG variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "LC_", "LANG"))
    }
    return kept | {"LC_ALL": "C"}
