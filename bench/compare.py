"""What a user would take instead, on the same machine, the same servers and the same no-op work.

    .venv/bin/python bench/compare.py [--quick] [--only NAME...] [--rounds N]
        [--number N...] [--hold N] [--drain N] [--results FILE] [--report]

Every peer gets schedules (or jobs with a time) that come due at the same second, once in every
round, ours among them, so that a ratio is always one of the same round. Starts are noted by the
work itself. `--hold` measures what it costs to hold schedules that are not due, `--drain` how fast
work that waits already is done. Results are added to a file; `--report` only shows what is in it.
Ends with 1 if an aim is missed. The machine should have nothing else to do.

Peers are installed into build/peers; one that cannot be is shown as "not installed".
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

from comparison import aims, table
from measured import Run
from peers import catalogue, processes, servers
from peers.catalogue import Peer, Store
from peers.installing import PYTHON, install, installed
from serving import embedded_server

from tenantcron.store.embedded import FOLDER

RESULTS = Path("build/bench/compare.json")
SCRIPTS = Path(__file__).parent / "peers"
NUMBERS = (1, 1_000, 10_000)
DRAINED = 20_000
HELD = 10_000
# At most this long after they were due; what has not started by then is counted as not started.
PATIENCE = 60.0
# Long enough for what looks every ten seconds only; a server tells of its work ten seconds late.
IDLE_FOR = 20.0
_GLANCE = 0.02
_SETTLED = 2.0
_JUST_BEFORE = 0.3
# A busy machine may need longer to start.
_STRETCHES = (1, 2, 4)
_STARTS_OF_PG_CRON = (
    "SELECT extract(epoch FROM start_time) FROM cron.job_run_details WHERE start_time IS NOT NULL"
)

_WHOLE = {"number": NUMBERS, "hold": HELD, "drain": DRAINED, "rounds": 3}
_QUICK = {"number": (1_000,), "hold": 0, "drain": 2_000, "rounds": 1}

Server = servers.Postgres | servers.Redis


class NotReadyError(RuntimeError):
    """What was to be watched came due before the processes were ready."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers that are there, and a folder for notes."""

    folder: Path
    postgres: servers.Postgres
    redis: servers.Redis | None
    pg_cron: servers.Postgres | None

    def server_of(self, peer: Peer) -> Server | None:
        """Return what the peer keeps its work in, if that is there."""
        if peer.store is Store.REDIS:
            return self.redis
        return self.pg_cron if peer.store is Store.PG_CRON else self.postgres

    def is_there(self, peer: Peer) -> bool:
        """Whether the peer and its server are installed."""
        return self.server_of(peer) is not None and (not peer.needs or installed(peer.needs))


@contextmanager
def _stage() -> Iterator[Stage]:
    with embedded_server() as folder, tempfile.TemporaryDirectory(prefix="peers-") as notes:
        postgres = servers.Postgres(folder / FOLDER / "postgres")
        with servers.redis(folder) as redis, servers.postgres_with_pg_cron(folder) as pg_cron:
            yield Stage(Path(notes), postgres, redis, pg_cron)


@dataclass(frozen=True, slots=True)
class Trial:
    """One peer with so many of one kind of work."""

    stage: Stage
    peer: Peer
    number: int
    patience: float

    @property
    def server(self) -> Server:
        """Return what the peer keeps its work in."""
        found = self.stage.server_of(self.peer)
        if found is None:
            raise RuntimeError(f"{self.peer.name} has no server")
        return found

    def at_once(self) -> Run:
        """Hold so many that come due at the same second; again, later, if it was not ready."""
        for stretch in _STRETCHES:
            try:
                return self._at_once(stretch)
            except NotReadyError as error:
                print(error, file=sys.stderr)
        raise NotReadyError(f"{self.peer.name} is never ready in time")

    def _at_once(self, stretch: int) -> Run:
        self.renew()
        due = self._due(stretch)
        held = self._hold(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            late = time.time() - due
            if late > 0:
                raise NotReadyError(f"{self.peer.name} was ready {late:.1f} s too late")
            time.sleep(max(due - time.time() - _JUST_BEFORE, 0))
            sides = self._sides(started)
            before = _seconds(sides)
            finished = self._wait_until_finished(due)
            computing = _seconds(sides) - before
            lateness = sorted(1_000 * (one - due) for one in self._starts())
        return Run(
            self.peer.name,
            "at once",
            self.number,
            held=held,
            ready=up,
            started=len(lateness),
            rate=min(len(lateness), self.number) / (finished - due),
            median=median(lateness) if lateness else math.nan,
            late=_ninety_nine(lateness),
            computing=1_000_000 * computing / max(len(lateness), 1),
        )

    def idle(self) -> Run:
        """Hold so many that are not due for an hour, and see what that costs."""
        self.renew()
        due = math.ceil(time.time()) + 3_600.0
        held = self._hold(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            time.sleep(_SETTLED + self.peer.lead_a_thousand * self.number / 1_000)
            megabytes, questions, share = self._cost(started)
        return Run(
            self.peer.name,
            "idle",
            self.number,
            held=held,
            ready=up,
            megabytes=megabytes,
            questions=questions,
            share=share,
        )

    def drained(self) -> Run:
        """Let so many wait, and see how fast they are done."""
        self.renew()
        due = time.time()
        held = self._hold(due)
        with self._processes(due) as started:
            up = self._wait_until_ready(started)
            finished = self._wait_until_finished(time.time())
            starts = self._starts()
        rate = len(starts) / (finished - min(starts))
        return Run(
            self.peer.name,
            "drained",
            self.number,
            held=held,
            ready=up,
            started=len(starts),
            rate=rate,
        )

    def renew(self) -> None:
        """Forget the trial before."""
        self.server.renew()
        for file in self.stage.folder.iterdir():
            file.unlink()

    def _due(self, stretch: int) -> float:
        """A full second that leaves time to start; pg_cron knows full minutes only."""
        soon = math.ceil(time.time() + stretch * self.peer.lead_for(self.number))
        return float(math.ceil(soon / 60) * 60 if self.peer.store is Store.PG_CRON else soon)

    def _hold(self, due: float) -> float:
        begin = time.perf_counter()
        done = run(self._command("hold", due), env=self._environment(), check=False)
        if done.returncode:
            raise RuntimeError(f"{self.peer.name} cannot take up {self.number}")
        return time.perf_counter() - begin

    @contextmanager
    def _processes(self, due: float) -> Iterator[list[Popen[bytes]]]:
        log = self.stage.folder / "log"
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
        notes = {"BENCH_NOTES": str(self.stage.folder), "PGTZ": "UTC"}
        if isinstance(self.server, servers.Redis):
            return own | notes | {"BENCH_REDIS": self.server.url, "C_FORCE_ROOT": "1"}
        return own | notes | {"BENCH_URL": self.server.url}

    def _wait_until_ready(self, started: list[Popen[bytes]]) -> float:
        begin = time.perf_counter()
        while self._ready() < len(started):
            self._check(started)
            if time.perf_counter() - begin > self.patience:
                raise RuntimeError(f"{self.peer.name} does not get ready")
            time.sleep(_GLANCE)
        return time.perf_counter() - begin

    def _ready(self) -> int:
        if self.peer.ready is not None and isinstance(self.server, servers.Postgres):
            return self.server.number(self.peer.ready)
        return len(list(self.stage.folder.glob("*.ready")))

    def _check(self, started: list[Popen[bytes]]) -> None:
        if any(one.poll() is not None for one in started):
            words = (self.stage.folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{self.peer.name} has ended:\n{words[-2_000:]}")

    def _cost(self, started: list[Popen[bytes]]) -> tuple[float, float, float]:
        """Return megabytes, questions a minute and the share of a core over a while."""
        sides = self._sides(started)
        begin, asked, used = time.time(), self.server.questions(), _seconds(sides)
        time.sleep(IDLE_FOR)
        elapsed = time.time() - begin
        questions = 60 * (self.server.questions() - asked) / elapsed
        megabytes = sum(one.megabytes() for one in sides[1:])
        return megabytes, questions, (_seconds(sides) - used) / elapsed

    def _sides(self, started: list[Popen[bytes]]) -> list[processes.Session]:
        """Return all whose computing counts: the server first."""
        return [self.server.session, *(processes.Session(one.pid) for one in started)]

    def _wait_until_finished(self, due: float) -> float:
        """Return when all had finished, or when we gave up waiting."""
        last = due + self.patience
        for enough in (lambda: self._started() >= self.number, self._all_finished):
            while not enough() and time.time() < last:
                time.sleep(_GLANCE)
        if self.peer.finished is None and self._started() >= self.number:
            return max(self._starts())
        return time.time()

    def _started(self) -> int:
        """Count by size: eight bytes a start. pg_cron notes nothing."""
        if self.peer.store is Store.PG_CRON:
            return self.number
        return sum(file.stat().st_size for file in self.stage.folder.glob("*.starts")) // 8

    def _all_finished(self) -> bool:
        if self.peer.finished is None or not isinstance(self.server, servers.Postgres):
            return True
        statement = self.peer.finished.format(number=self.number)
        return self.server.number(statement) >= self.number

    def _starts(self) -> list[float]:
        if isinstance(self.server, servers.Postgres) and self.peer.store is Store.PG_CRON:
            return self.server.numbers(_STARTS_OF_PG_CRON)
        files = self.stage.folder.glob("*.starts")
        return [one for file in files for (one,) in iter_unpack("d", file.read_bytes())]


def _seconds(sessions: list[processes.Session]) -> float:
    return sum(one.seconds() for one in sessions)


def _ninety_nine(values: list[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else (values or [math.nan])[0]


def _measure(arguments: argparse.Namespace) -> Iterator[Run]:
    """Measure round by round, and within one peer by peer."""
    chosen = [one for one in catalogue.PEERS if _is_chosen(one, arguments.only)]
    with _stage() as stage:
        for peer in chosen:
            if not stage.is_there(peer):
                yield Run(peer.name, "not installed", 0)
        there = [peer for peer in chosen if stage.is_there(peer)]
        for _ in range(arguments.rounds):
            name = f"{time.time():.0f}"
            for peer, number, work in _trials(there, arguments):
                trial = Trial(stage, peer, number, arguments.patience)
                yield _tried(trial, work).in_round(name)


def _is_chosen(peer: Peer, names: list[str]) -> bool:
    """Ours is always among them: there would be no ratio without."""
    return not names or peer.script == catalogue.OURS.script or any(x in peer.name for x in names)


def _trials(
    there: list[Peer], arguments: argparse.Namespace
) -> Iterator[tuple[Peer, int, Callable[[Trial], Run]]]:
    for number in arguments.number:
        for peer in there:
            if peer.schedules:
                yield peer, number, Trial.at_once
    if arguments.hold:
        for peer in there:
            if peer.schedules:
                yield peer, arguments.hold, Trial.idle
    if arguments.drain:
        for peer in there:
            if peer.drains:
                yield peer, arguments.drain, Trial.drained


def _tried(trial: Trial, work: Callable[[Trial], Run]) -> Run:
    """Report a peer that fails, and go on with the others; ours may not fail."""
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
        for one in _measure(arguments):
            print(one, file=sys.stderr)
            runs.append(one)
            arguments.results.write_text(json.dumps([asdict(x) for x in runs]), encoding="utf-8")
    print(table(runs), end="\n\n")
    reached = aims(runs)
    print("\n".join(map(str, reached)))
    return int(any(one.missed for one in reached))


def _read(file: Path) -> list[Run]:
    return [Run(**one) for one in json.loads(file.read_text("utf-8"))] if file.exists() else []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of 1,000; some 4 minutes")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of peers")
    parser.add_argument("--number", type=int, nargs="*", help="how many come due at once")
    parser.add_argument("--hold", type=int, help="how many are held while idle; 0 for not at all")
    parser.add_argument("--drain", type=int, help="how many wait already; 0 for not at all")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="only show what was measured before")
    given = parser.parse_args()
    usual = _QUICK if given.quick else _WHOLE
    for name, value in usual.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


if __name__ == "__main__":
    sys.exit(main())
