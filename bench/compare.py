"""Compare tenantcron with alternatives, on the same machine, servers and no-op work.

    .venv/bin/python bench/compare.py [--quick] [--only NAME...] [--rounds N]
        [--number N...] [--load N] [--drain N] [--results FILE] [--report]

Every peer gets schedules (or delayed jobs) that come due at the same second, once in every round,
tenantcron included, so that a ratio is always computed within a round. The work itself records its
starts. `--load` measures the cost of schedules that are not due, `--drain` how fast pending work is
done. Results are added to a file; `--report` only prints what is in it. Exits with 1 if a goal is
missed. The machine should be otherwise idle.

Peers are installed into build/peers; a peer that cannot be installed is shown as "not installed".
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from struct import iter_unpack
from subprocess import Popen, run

from peers import catalogue, processes, servers
from peers.catalogue import Peer, Store
from peers.environment import PYTHON, install, installed
from results import Run
from serving import embedded_server
from tables import goals, table

from tenantcron.store.embedded.home import FOLDER

RESULTS = Path("build/bench/compare.json")
SCRIPTS = Path(__file__).parent / "peers"
NUMBERS = (1, 1_000, 10_000)
DRAINED = 20_000
LOADED = 10_000
# Seconds after the due time; work that has not started by then counts as not started.
TIMEOUT = 60.0
# Long enough for peers that poll every ten seconds; server statistics lag ten seconds behind.
IDLE_FOR = 20.0
_POLL_INTERVAL = 0.02
_STABILISE = 2.0
_LEAD_TIME = 0.3
# A busy machine may need longer to start.
_LEAD_FACTORS = (1, 2, 4)
_STARTS_OF_PG_CRON = (
    "SELECT extract(epoch FROM start_time) FROM cron.job_run_details WHERE start_time IS NOT NULL"
)

_FULL = {"number": NUMBERS, "load": LOADED, "drain": DRAINED, "rounds": 3}
_QUICK = {"number": (1_000,), "load": 0, "drain": 2_000, "rounds": 1}

Server = servers.Postgres | servers.Redis


class NotReadyError(RuntimeError):
    """The work came due before the processes were ready."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """The available servers, and a folder for records."""

    folder: Path
    postgres: servers.Postgres
    redis: servers.Redis | None
    pg_cron: servers.Postgres | None

    def server_of(self, peer: Peer) -> Server | None:
        """Return the server of the peer, if it is available."""
        if peer.store is Store.REDIS:
            return self.redis
        return self.pg_cron if peer.store is Store.PG_CRON else self.postgres

    def is_available(self, peer: Peer) -> bool:
        """Whether the peer and its server are installed."""
        return self.server_of(peer) is not None and (not peer.needs or installed(peer.needs))


@contextmanager
def _testbed() -> Iterator[Testbed]:
    with embedded_server() as folder, tempfile.TemporaryDirectory(prefix="peers-") as notes:
        postgres = servers.Postgres(folder / FOLDER / "postgres")
        with servers.redis(folder) as redis, servers.postgres_with_pg_cron(folder) as pg_cron:
            yield Testbed(Path(notes), postgres, redis, pg_cron)


@dataclass(frozen=True, slots=True)
class Trial:
    """One peer with a number of schedules or jobs."""

    testbed: Testbed
    peer: Peer
    number: int
    timeout: float

    @property
    def server(self) -> Server:
        """Return the server of the peer."""
        found = self.testbed.server_of(self.peer)
        if found is None:
            raise RuntimeError(f"{self.peer.name} has no server")
        return found

    def at_once(self) -> Run:
        """Load work that is due at the same second; retry with more lead time if not ready."""
        for lead_factor in _LEAD_FACTORS:
            try:
                return self._at_once(lead_factor)
            except NotReadyError as error:
                print(error, file=sys.stderr)
        raise NotReadyError(f"{self.peer.name} is not ready in time")

    def _at_once(self, lead_factor: int) -> Run:
        self.recreate()
        due = self._due(lead_factor)
        load_seconds = self.load(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            late = time.time() - due
            if late > 0:
                raise NotReadyError(f"{self.peer.name} was ready {late:.1f} s after the due time")
            time.sleep(max(due - time.time() - _LEAD_TIME, 0))
            sides = self._sides(started)
            before = _seconds(sides)
            finished = self._wait_until_finished(due)
            cpu = _seconds(sides) - before
            lateness = sorted(1_000 * (start - due) for start in self._starts())
        return Run(
            self.peer.name,
            "at once",
            self.number,
            load_seconds=load_seconds,
            ready_seconds=up,
            started=len(lateness),
            rate=min(len(lateness), self.number) / (finished - due),
            median=median(lateness) if lateness else math.nan,
            p99=_p99(lateness),
            cpu=1_000_000 * cpu / max(len(lateness), 1),
        )

    def idle(self) -> Run:
        """Load schedules that are not due for an hour, and measure the cost."""
        self.recreate()
        due = math.ceil(time.time()) + 3_600.0
        load_seconds = self.load(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            time.sleep(_STABILISE + self.peer.lead_per_thousand * self.number / 1_000)
            megabytes, queries, share = self._cost(started)
        return Run(
            self.peer.name,
            "idle",
            self.number,
            load_seconds=load_seconds,
            ready_seconds=up,
            megabytes=megabytes,
            queries=queries,
            share=share,
        )

    def drained(self) -> Run:
        """Load pending work, and measure how fast it is done."""
        self.recreate()
        due = time.time()
        load_seconds = self.load(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            finished = self._wait_until_finished(time.time())
            starts = self._starts()
        rate = len(starts) / (finished - min(starts))
        return Run(
            self.peer.name,
            "drained",
            self.number,
            load_seconds=load_seconds,
            ready_seconds=up,
            started=len(starts),
            rate=rate,
        )

    def recreate(self) -> None:
        """Remove everything of the previous trial."""
        self.server.recreate()
        for file in self.testbed.folder.iterdir():
            file.unlink()

    def _due(self, lead_factor: int) -> float:
        """Return a full second that leaves time to start; pg_cron only has full minutes."""
        soon = math.ceil(time.time() + lead_factor * self.peer.lead_for(self.number))
        return float(math.ceil(soon / 60) * 60 if self.peer.store is Store.PG_CRON else soon)

    def load(self, due: float) -> float:
        """Load the work; return the seconds that it took, with the start of the process."""
        begin = time.perf_counter()
        done = run(self._command("load", due), env=self._environment(), check=False)
        if done.returncode:
            raise RuntimeError(f"{self.peer.name} cannot load {self.number}")
        return time.perf_counter() - begin

    @contextmanager
    def _processes(self, due: float) -> Iterator[list[Popen[bytes]]]:
        log = self.testbed.folder / "log"
        started = [
            processes.start(self._command(action, due), self._environment(), log)
            for action in self.peer.processes
        ]
        try:
            yield started
        finally:
            processes.stop(started)

    def _command(self, action: str, due: float) -> list[str]:
        python = str(PYTHON) if self.peer.needs else sys.executable
        script = str(SCRIPTS / self.peer.script)
        return [python, script, action, self.peer.kind, str(self.number), str(due)]

    def _environment(self) -> dict[str, str]:
        own = {key: value for key, value in os.environ.items() if "TENANTCRON" not in key}
        records = {"BENCH_RECORDS": str(self.testbed.folder), "PGTZ": "UTC"}
        if isinstance(self.server, servers.Redis):
            return own | records | {"BENCH_REDIS": self.server.url, "C_FORCE_ROOT": "1"}
        return own | records | {"BENCH_URL": self.server.url}

    def _wait_until_ready(self, started: list[Popen[bytes]]) -> float:
        begin = time.perf_counter()
        while self._ready() < len(started):
            self._check(started)
            if time.perf_counter() - begin > self.timeout:
                raise RuntimeError(f"{self.peer.name} does not become ready")
            time.sleep(_POLL_INTERVAL)
        return time.perf_counter() - begin

    def _ready(self) -> int:
        if self.peer.ready is not None and isinstance(self.server, servers.Postgres):
            return self.server.number(self.peer.ready)
        return len(list(self.testbed.folder.glob("*.ready")))

    def _check(self, started: list[Popen[bytes]]) -> None:
        if any(process.poll() is not None for process in started):
            output = (self.testbed.folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{self.peer.name} has exited:\n{output[-2_000:]}")

    def _cost(self, started: list[Popen[bytes]]) -> tuple[float, float, float]:
        """Return megabytes, queries per minute and the CPU share over a while."""
        sides = self._sides(started)
        begin, queried, used = time.time(), self.server.queries(), _seconds(sides)
        time.sleep(IDLE_FOR)
        elapsed = time.time() - begin
        queries = 60 * (self.server.queries() - queried) / elapsed
        megabytes = sum(side.megabytes() for side in sides[1:])
        return megabytes, queries, (_seconds(sides) - used) / elapsed

    def _sides(self, started: list[Popen[bytes]]) -> list[processes.Session]:
        """Return all processes whose CPU time counts: the server first."""
        return [self.server.session, *(processes.Session(process.pid) for process in started)]

    def _wait_until_finished(self, due: float) -> float:
        """Return when all had finished, or the time of the timeout."""
        last = due + self.timeout
        for enough in (self._all_started, self._all_finished):
            while not enough() and time.time() < last:
                time.sleep(_POLL_INTERVAL)
        if self.peer.finished is None and self._all_started():
            return max(self._starts())
        return time.time()

    def _all_started(self) -> bool:
        return self._started() >= self.number

    def _started(self) -> int:
        """Count by file size: eight bytes per start. pg_cron records nothing."""
        if self.peer.store is Store.PG_CRON:
            return self.number
        return sum(file.stat().st_size for file in self.testbed.folder.glob("*.starts")) // 8

    def _all_finished(self) -> bool:
        if self.peer.finished is None or not isinstance(self.server, servers.Postgres):
            return True
        statement = self.peer.finished.format(number=self.number)
        return self.server.number(statement) >= self.number

    def _starts(self) -> list[float]:
        if isinstance(self.server, servers.Postgres) and self.peer.store is Store.PG_CRON:
            return self.server.numbers(_STARTS_OF_PG_CRON)
        files = self.testbed.folder.glob("*.starts")
        return [start for file in files for (start,) in iter_unpack("d", file.read_bytes())]


def _seconds(sessions: list[processes.Session]) -> float:
    return sum(session.seconds() for session in sessions)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else (values or [math.nan])[0]


def _measure(arguments: argparse.Namespace) -> Iterator[Run]:
    """Measure round by round, and within a round peer by peer."""
    chosen = [peer for peer in catalogue.PEERS if _is_chosen(peer, arguments.only)]
    with _testbed() as testbed:
        for peer in chosen:
            if not testbed.is_available(peer):
                yield Run(peer.name, "not installed", 0)
        available = [peer for peer in chosen if testbed.is_available(peer)]
        for _ in range(arguments.rounds):
            name = f"{time.time():.0f}"
            for peer, number, work in _trials(available, arguments):
                trial = Trial(testbed, peer, number, arguments.timeout)
                yield _tried(trial, work).in_round(name)


def _is_chosen(peer: Peer, names: list[str]) -> bool:
    """Whether to run a peer; tenantcron always runs, because ratios need it."""
    return (
        not names
        or peer.script == catalogue.TENANTCRON.script
        or any(name in peer.name for name in names)
    )


def _trials(
    available: list[Peer], arguments: argparse.Namespace
) -> Iterator[tuple[Peer, int, Callable[[Trial], Run]]]:
    for number in arguments.number:
        for peer in available:
            if peer.schedules:
                yield peer, number, Trial.at_once
    if arguments.load:
        for peer in available:
            if peer.schedules:
                yield peer, arguments.load, Trial.idle
    if arguments.drain:
        for peer in available:
            if peer.drains:
                yield peer, arguments.drain, Trial.drained


def _tried(trial: Trial, work: Callable[[Trial], Run]) -> Run:
    """Report a peer that fails, and continue with the others; tenantcron must not fail."""
    try:
        return work(trial)
    except RuntimeError as error:
        if not trial.peer.needs:
            raise
        print(error, file=sys.stderr)
        return Run(trial.peer.name, "failed", trial.number)


def main() -> int:
    """Measure and report."""
    arguments = _arguments()
    runs = _read(arguments.results)
    if not arguments.report:
        install()
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        for result in _measure(arguments):
            print(result, file=sys.stderr)
            runs.append(result)
            saved = json.dumps([asdict(saved_run) for saved_run in runs])
            arguments.results.write_text(saved, encoding="utf-8")
    print(table(runs), end="\n\n")
    checked = goals(runs)
    print("\n".join(map(str, checked)))
    return int(any(goal.missed for goal in checked))


def _read(file: Path) -> list[Run]:
    return [Run(**run) for run in json.loads(file.read_text("utf-8"))] if file.exists() else []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of 1,000; about 4 minutes")
    parser.add_argument("--only", nargs="+", default=[], help="substrings of peer names")
    parser.add_argument("--number", type=int, nargs="*", help="schedules that are due at once")
    parser.add_argument(
        "--load", type=int, help="schedules to load for the idle trial; 0 to skip it"
    )
    parser.add_argument(
        "--drain", type=int, help="pending executions or jobs to drain; 0 to skip it"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="only print saved results")
    given = parser.parse_args()
    defaults = _QUICK if given.quick else _FULL
    for name, value in defaults.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


if __name__ == "__main__":
    sys.exit(main())
