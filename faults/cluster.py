"""What a run is made of, seen from outside: the server, the schedulers, the commands.

All of it lives in one temporary folder and ends with the run, however that ends: the processes
that help have their input from here, and end with it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from time import monotonic

import psycopg
from psycopg.rows import DictRow, dict_row

from faults.forkserver import Order
from faults.injected import Fate
from faults.postgres import BrokenHarnessError, Kind
from faults.sagas import EFFECTS, KILLS, PEACE
from faults.servers import Servers
from faults.services import NETWORKS

LEASE = 5.0
ROOT = Path(__file__).parents[1]
_PATIENCE = 180.0
_TICK = 0.02
_CONNECTS_WITHIN = 5
_OURS = ("TENANTCRON_", "PG", "CI", "GITHUB_", "GITLAB_")


class ForkServer:
    """Processes on demand."""

    def __init__(self, tree: Path | None, folder: Path) -> None:
        self.folder = folder
        paths = [str(tree)] if tree else []
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(_OURS)
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.forkserver"],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the harness. This one ends with its input, and takes its own along.
            start_new_session=True,
        )
        self._orders = self._answers = 0
        self._rest = b""
        self.ended: dict[int, int] = {}
        self.stopped: set[int] = set()
        self._pids: dict[int, int] = {}
        self._ready = False
        self._await(lambda: self._ready)

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], fate: Fate | None = None
    ) -> int:
        """Start a command; return its process id."""
        self._orders += 1
        order = Order(
            number=self._orders,
            argv=list(argv),
            environment=dict(environment),
            folder=str(self.folder),
            output=str(self.folder / "output"),
            fate=fate or Fate(),
        )
        pipe = self._process.stdin
        if pipe is None:
            raise BrokenHarnessError("the fork server has no input")
        pipe.write(json.dumps(order).encode() + b"\n")
        pipe.flush()
        number = self._orders
        self._await(lambda: number in self._pids)
        return self._pids.pop(number)

    def look(self, seconds: float = 0.0) -> None:
        """Take note of what has happened; wait for something to happen, at most so long."""
        pipe = self._process.stdout
        if pipe is None:
            raise BrokenHarnessError("the fork server has no output")
        while select([pipe], [], [], seconds)[0]:
            said = os.read(pipe.fileno(), 1 << 16)
            if not said:
                raise BrokenHarnessError("the fork server is gone")
            *lines, self._rest = (self._rest + said).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
            seconds = 0.0

    def _hear(self, said: dict[str, int]) -> None:
        if "ended" in said:
            self.ended[said["ended"]] = said["code"]
            self.stopped.discard(said["ended"])
        elif "stopped" in said:
            self.stopped.add(said["stopped"])
        elif "pid" in said:
            self._pids[said["number"]] = said["pid"]
        else:
            self._ready = True

    def _await(self, condition: Callable[[], bool]) -> None:
        patience = monotonic() + _PATIENCE
        while not condition():
            if monotonic() > patience:
                raise BrokenHarnessError("the fork server does not answer")
            self.look(1.0)

    def close(self) -> None:
        """End it, and all its children with it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


class Services:
    """The counting service and the networks."""

    def __init__(self, effects: Path, ports: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.services", str(effects), *map(str, ports)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the harness. This one ends with its input, and takes its own along.
            start_new_session=True,
            text=True,
        )
        if self._process.stdout is None:
            raise BrokenHarnessError("the services have no output")
        self.service, *networks = map(int, self._process.stdout.readline().split())
        self.networks = dict(zip(NETWORKS, networks, strict=True))

    def order(self, network: str, word: str, number: float = 0.0) -> None:
        """Tell a network what to be."""
        if self._process.stdin is None:
            raise BrokenHarnessError("the services have no input")
        self._process.stdin.write(f"{network} {word} {number}\n")
        self._process.stdin.flush()

    def order_all(self, word: str, number: float = 0.0) -> None:
        """Tell all networks what to be."""
        for network in NETWORKS:
            self.order(network, word, number)

    def close(self) -> None:
        """End all of them."""
        self._process.kill()
        self._process.communicate()


def _nothing() -> None:
    """Let nothing go on."""


@dataclass(slots=True)
class World:
    """Everything that a run has."""

    folder: Path
    servers: Servers
    services: Services
    server: ForkServer
    effects: Path
    calls: Path
    # When the machine kept a scheduler from running, as that one tells it.
    held_up: Path
    # When the schedulers that are not killed looked for work, as they report it.
    progress: Path
    # Whether schedulers are killed or stopped from outside.
    kills_workers: bool = True
    replicas: "dict[int, Replica]" = field(default_factory=dict)
    # Commands that nobody waits for.
    commands: dict[int, str] = field(default_factory=dict)
    # What goes on while somebody waits for a command.
    meanwhile: Callable[[], None] = _nothing

    @property
    def url(self) -> str:
        """The primary, past the bad networks."""
        return self.servers.primary.url

    def connect(self) -> psycopg.Connection[DictRow]:
        """Connect to the primary, past the bad networks."""
        return psycopg.connect(
            self.url, row_factory=dict_row, autocommit=True, connect_timeout=_CONNECTS_WITHIN
        )

    def query(self, statement: str, *values: object) -> list[DictRow]:
        """Run a statement by hand."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def environment(self, network: str | None = None) -> dict[str, str]:
        """Return what a command needs to know; through a network it sees one server only."""
        url = self.servers.url
        if network is not None:
            port = self.services.networks[network]
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres?gssencmode=disable"
        return {
            "TENANTCRON_DATABASE_URL": url,
            "TENANTCRON_LEASE": f"{LEASE:.0f}s",
            "TENANTCRON_SERVICE": "faults",
            "TENANTCRON_MAX_CONCURRENT": "500",
            "TENANTCRON_RETENTION": "400d",
            "TENANTCRON_REFRESH_INTERVAL": "5s",
            "TENANTCRON_REFRESH_JITTER": "1s",
            "TENANTCRON_LOG_LEVEL": "error",
            "TENANTCRON_LOG_FORMAT": "json",
            EFFECTS: str(self.effects),
            PEACE: str(self.folder / "peace"),
            **self._blame(),
        }

    def _blame(self) -> dict[str, str]:
        """Return how often a handler kills, and how often it may be blamed for a lost worker.

        Where workers are killed from outside all the time, nothing that they run is to blame. Then
        the handler stops killing after a while. Otherwise the product has to find it.
        """
        if self.kills_workers:
            return {"TENANTCRON_KILLS_ALLOWED": "100", KILLS: "3"}
        return {KILLS: "1000"}

    def make_peace(self) -> None:
        """Let everything be good from now on: networks, and handlers of later executions."""
        (self.folder / "peace").touch()
        self.services.order_all("heal")
        self.services.order_all("speak")

    def command(self, *argv: str) -> None:
        """Start a command of an operator that nobody waits for."""
        pid = self.server.start([*argv, "--actor", "harness:operator"], self.environment())
        self.commands[pid] = " ".join(argv)

    def run(self, *argv: str, seconds: float = 120.0) -> int:
        """Run a command to its end; return its exit code."""
        actor = () if argv[0] == "migrate" else ("--actor", "harness:operator")
        return self.wait(self.server.start([*argv, *actor], self.environment()), seconds)

    def wait(self, pid: int, seconds: float = 120.0) -> int:
        """Wait for the end of a process; return its exit code."""
        patience = monotonic() + seconds
        while pid not in self.server.ended:
            if monotonic() > patience:
                raise BrokenHarnessError(f"a command does not end; {self.last_words()}")
            self.meanwhile()
            self.server.look(_TICK)
        return self.server.ended.pop(pid)

    def go_on(self, seconds: float, until: Callable[[], object] = lambda: False) -> bool:
        """Let the run go on for a while; return whether it came to what was waited for."""
        end = monotonic() + seconds
        while monotonic() < end:
            if until():
                return True
            self.meanwhile()
            self.server.look(_TICK)
        return False

    def must(self, *argv: str) -> None:
        """Run a command that has to succeed."""
        if code := self.run(*argv):
            words = f"tenantcron {' '.join(argv)} ended with {code}"
            raise BrokenHarnessError(f"{words}; {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what the processes have written."""
        file = self.folder / "output"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return text[-2000:]


@dataclass(slots=True)
class Replica:
    """A scheduler that runs."""

    pid: int
    since: float
    fate: Fate
    network: str | None = None
    # The place of a scheduler that is not killed: another one takes it if it ends.
    seat: str | None = None
    # When it is killed from outside, and when it is let go on after a stop.
    dies_at: float | None = None
    goes_on_at: float | None = None

    def strike(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.strike(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a run needs."""

    tree: Path | None = None
    kind: Kind = Kind.EMBEDDED
    replicated: bool = False
    on_disks: bool = False
    kills_workers: bool = True


@contextmanager
def world(equipment: Equipment) -> Iterator[World]:
    """Make the world of a run, and take it down at its end."""
    folder = Path(tempfile.mkdtemp(prefix="tenantcron-faults-"))
    closing: list[Services | ForkServer | Servers] = []
    try:
        servers = Servers(
            folder,
            equipment.kind,
            replicated=equipment.replicated,
            on_disks=equipment.on_disks,
        )
        closing.append(servers)
        servers.prepare()
        calls = folder / "calls"
        services = Services(calls, servers.ports)
        closing.append(services)
        server = ForkServer(equipment.tree, folder)
        closing.append(server)
        if equipment.replicated:
            servers.replicate(services.networks["replication"])
        files = (folder / "effects", calls, folder / "held_up", folder / "progress")
        yield World(folder, servers, services, server, *files, equipment.kills_workers)
    finally:
        for each in reversed(closing):
            each.close()
        shutil.rmtree(folder, ignore_errors=True)
