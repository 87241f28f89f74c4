"""The testbed of a run: the server, the schedulers, the commands.

Everything is in one temporary folder and is removed at the end of the run, however it ends: the
helper processes read from pipes of this process, and exit when the pipes close.
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
from faults.injection import Injections
from faults.postgres import HarnessError, Kind
from faults.sagas import EFFECTS, FAULTS_OVER, KILLS
from faults.servers import Servers
from faults.services import NETWORKS

LEASE = 5.0
ROOT = Path(__file__).parents[1]
_TIMEOUT = 180.0
_TICK = 0.02
_CONNECTS_WITHIN = 5
_REMOVED_PREFIXES = ("TENANTCRON_", "PG", "CI", "GITHUB_", "GITLAB_")


class ForkServer:
    """Starts processes on demand."""

    def __init__(self, tree: Path | None, folder: Path) -> None:
        self.folder = folder
        paths = [str(tree)] if tree else []
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_REMOVED_PREFIXES)
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.forkserver"],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the harness. This process exits with its input, and ends its children.
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
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        injections: Injections | None = None,
    ) -> int:
        """Start a command; return its process id."""
        self._orders += 1
        order = Order(
            number=self._orders,
            argv=list(argv),
            environment=dict(environment),
            folder=str(self.folder),
            output=str(self.folder / "output"),
            injections=injections or Injections(),
        )
        pipe = self._process.stdin
        if pipe is None:
            raise HarnessError("the fork server has no input")
        pipe.write(json.dumps(order).encode() + b"\n")
        pipe.flush()
        number = self._orders
        self._await(lambda: number in self._pids)
        return self._pids.pop(number)

    def poll(self, seconds: float = 0.0) -> None:
        """Process events; wait at most this long for the first one."""
        pipe = self._process.stdout
        if pipe is None:
            raise HarnessError("the fork server has no output")
        while select([pipe], [], [], seconds)[0]:
            received = os.read(pipe.fileno(), 1 << 16)
            if not received:
                raise HarnessError("the fork server has exited")
            *lines, self._rest = (self._rest + received).split(b"\n")
            for line in lines:
                self._receive(json.loads(line))
            seconds = 0.0

    def _receive(self, received: dict[str, int]) -> None:
        if "ended" in received:
            self.ended[received["ended"]] = received["code"]
            self.stopped.discard(received["ended"])
        elif "stopped" in received:
            self.stopped.add(received["stopped"])
        elif "pid" in received:
            self._pids[received["number"]] = received["pid"]
        else:
            self._ready = True

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = monotonic() + _TIMEOUT
        while not condition():
            if monotonic() > deadline:
                raise HarnessError("the fork server does not answer")
            self.poll(1.0)

    def close(self) -> None:
        """Stop it together with all its children."""
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
            # Ctrl-C is for the harness. This process exits with its input, and ends its children.
            start_new_session=True,
            text=True,
        )
        if self._process.stdout is None:
            raise HarnessError("the services have no output")
        self.service, *networks = map(int, self._process.stdout.readline().split())
        self.networks = dict(zip(NETWORKS, networks, strict=True))

    def order(self, network: str, word: str, number: float = 0.0) -> None:
        """Send a command to a network."""
        if self._process.stdin is None:
            raise HarnessError("the services have no input")
        self._process.stdin.write(f"{network} {word} {number}\n")
        self._process.stdin.flush()

    def order_all(self, word: str, number: float = 0.0) -> None:
        """Send a command to all networks."""
        for network in NETWORKS:
            self.order(network, word, number)

    def close(self) -> None:
        """Stop all of them."""
        self._process.kill()
        self._process.communicate()


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class Testbed:
    """All resources of a run."""

    folder: Path
    servers: Servers
    services: Services
    server: ForkServer
    effects: Path
    calls: Path
    # Times at which the machine kept a scheduler from running, as logged by it.
    stalls: Path
    # Times at which the supervised schedulers claimed, as logged by them.
    progress: Path
    # Whether schedulers are killed or stopped from outside.
    kills_workers: bool = True
    replicas: "dict[int, Replica]" = field(default_factory=dict)
    # Commands that run in the background.
    commands: dict[int, str] = field(default_factory=dict)
    # Called repeatedly while the run waits for a command.
    meanwhile: Callable[[], None] = _nothing

    @property
    def url(self) -> str:
        """The URL of the primary, bypassing the faulty networks."""
        return self.servers.primary.url

    def connect(self) -> psycopg.Connection[DictRow]:
        """Connect to the primary, bypassing the faulty networks."""
        return psycopg.connect(
            self.url, row_factory=dict_row, autocommit=True, connect_timeout=_CONNECTS_WITHIN
        )

    def query(self, statement: str, *values: object) -> list[DictRow]:
        """Run a statement directly on the primary."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def environment(self, network: str | None = None) -> dict[str, str]:
        """Return the environment of a command; through a network it sees one server only."""
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
            FAULTS_OVER: str(self.folder / "peace"),
            **self._blame(),
        }

    def _blame(self) -> dict[str, str]:
        """Return how often the poison handler kills, and how often an execution may be blamed.

        Where workers are killed from outside all the time, their executions are not to blame. The
        handler then stops killing after a while. Otherwise the product has to find it.
        """
        if self.kills_workers:
            return {"TENANTCRON_KILLS_ALLOWED": "100", KILLS: "3"}
        return {KILLS: "1000"}

    def end_faults(self) -> None:
        """End all faults: networks, and handlers of later executions."""
        (self.folder / "peace").touch()
        self.services.order_all("heal")
        self.services.order_all("speak")

    def command(self, *argv: str) -> None:
        """Start an operator's command in the background."""
        pid = self.server.start([*argv, "--actor", "harness:operator"], self.environment())
        self.commands[pid] = " ".join(argv)

    def run(self, *argv: str, seconds: float = 120.0) -> int:
        """Run a command to completion; return its exit code."""
        actor = () if argv[0] == "migrate" else ("--actor", "harness:operator")
        return self.wait(self.server.start([*argv, *actor], self.environment()), seconds)

    def wait(self, pid: int, seconds: float = 120.0) -> int:
        """Wait for a process to end; return its exit code."""
        deadline = monotonic() + seconds
        while pid not in self.server.ended:
            if monotonic() > deadline:
                raise HarnessError(f"a command does not finish; {self.log_tail()}")
            self.meanwhile()
            self.server.poll(_TICK)
        return self.server.ended.pop(pid)

    def proceed(self, seconds: float, until: Callable[[], object] = lambda: False) -> bool:
        """Let the run continue for a while; return whether the condition became true."""
        end = monotonic() + seconds
        while monotonic() < end:
            if until():
                return True
            self.meanwhile()
            self.server.poll(_TICK)
        return False

    def run_checked(self, *argv: str) -> None:
        """Run a command that must succeed."""
        if code := self.run(*argv):
            words = f"tenantcron {' '.join(argv)} ended with {code}"
            raise HarnessError(f"{words}; {self.log_tail()}")

    def log_tail(self) -> str:
        """Return the end of the output of all processes."""
        file = self.folder / "output"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return text[-2000:]


@dataclass(slots=True)
class Replica:
    """A running scheduler."""

    pid: int
    since: float
    injections: Injections
    network: str | None = None
    # The name of a supervised scheduler: it is replaced if it ends.
    instance: str | None = None
    # When it is killed from outside, and when it is resumed after a stop.
    kill_at: float | None = None
    resumes_at: float | None = None

    def strike(self, number: int) -> None:
        """Send it a signal, if it is still running."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as in a crash."""
        self.strike(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of a testbed."""

    tree: Path | None = None
    kind: Kind = Kind.EMBEDDED
    replicated: bool = False
    on_disks: bool = False
    kills_workers: bool = True


@contextmanager
def testbed(setup: Setup) -> Iterator[Testbed]:
    """Create the testbed of a run, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="tenantcron-faults-"))
    closing: list[Services | ForkServer | Servers] = []
    try:
        servers = Servers(
            folder,
            setup.kind,
            replicated=setup.replicated,
            on_disks=setup.on_disks,
        )
        closing.append(servers)
        servers.prepare()
        calls = folder / "calls"
        services = Services(calls, servers.ports)
        closing.append(services)
        server = ForkServer(setup.tree, folder)
        closing.append(server)
        if setup.replicated:
            servers.replicate(services.networks["replication"])
        files = (folder / "effects", calls, folder / "stalls", folder / "progress")
        yield Testbed(folder, servers, services, server, *files, setup.kills_workers)
    finally:
        for resource in reversed(closing):
            resource.close()
        shutil.rmtree(folder, ignore_errors=True)
