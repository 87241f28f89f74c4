"""How fast occurrences are fired, started and finished, and how late they start.

    .venv/bin/pip install pgqueuer asyncpg       # optional: the peer for the drain comparison
    .venv/bin/python bench/scheduler.py [--quick] [--database-url URL]

Runs on a fresh embedded server with its durable defaults, in a temporary folder, or in a separate
database on the server of the URL. Exits with 1 if a goal is missed. Firing is measured in this
process; everything else with real `tenantcron run` processes with no-op handlers and raised limits.
The machine should be otherwise idle.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import structlog
from seeding import NOOP, Seeding
from serving import Workspace, add_database_url, server
from sqlalchemy import text

from tenantcron.core.settings import Settings
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps import fire
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.times import database_time

TENANTS = 200
WARM_UP = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure and its goal; larger is better, unless it is a time."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    is_time: bool = False

    @property
    def missed(self) -> bool:
        """Whether the goal is missed."""
        if self.goal is None:
            return False
        return self.value > self.goal if self.is_time else self.value < self.goal


@dataclass(frozen=True, slots=True)
class Bench:
    """A database to measure on."""

    database: Database
    place: Workspace

    @property
    def folder(self) -> Path:
        """The working folder of its processes."""
        return self.place.folder

    @property
    def settings(self) -> Settings:
        """The settings of the steps in this process."""
        return self.place.settings

    @property
    def seeds(self) -> Seeding:
        """The seeding of the database."""
        return Seeding(self.database, self.settings)

    async def prepare(self) -> None:
        """Create tenants, history and raised limits."""
        await self.seeds.prepare()
        await self.seeds.add_tenants(TENANTS)

    async def clear(self) -> None:
        """Remove everything that was measured before."""
        async with self.database.transaction() as connection:
            await connection.execute(text("TRUNCATE tenantcron.execution"))
            await connection.execute(text("TRUNCATE tenantcron.execution_attempt"))
            await connection.execute(text("DELETE FROM tenantcron.schedule_cursor"))

    async def add_cursors(
        self, number: int, due_in: float, *, apart: float = 0.0, name: str = "s"
    ) -> datetime:
        """Add cursors that are due at once, or one after the other; return the first time."""
        async with self.database.transaction() as connection:
            due = await database_time(connection) + timedelta(seconds=due_in)
        await self.seeds.add_cursors(number, due, tenants=TENANTS, name=name, apart=apart)
        return due

    async def add_pending(self, number: int) -> None:
        """Add executions that can start."""
        await self.seeds.add_pending(number, tenants=TENANTS)

    async def scalar(self, statement: str) -> float:
        """Query one number."""
        async with self.database.transaction() as connection:
            return float(await connection.scalar(text(statement)) or 0)

    async def succeeded(self, number: int) -> None:
        """Wait until this many have succeeded."""
        deadline = perf_counter() + 120
        while (
            await self.scalar("SELECT count(*) FROM tenantcron.execution WHERE state = 'SUCCEEDED'")
            < number
        ):
            if perf_counter() > deadline:
                raise RuntimeError("not all executions succeeded within two minutes")
            await asyncio.sleep(0.25)


async def firing(bench: Bench, number: int) -> list[Measured]:
    """Batched firing, compared with one transaction per occurrence."""
    replica = Replica(bench.database, bench.settings, capabilities=NOOP)
    await bench.add_cursors(number, -1)
    batched = await _fire_all(replica)
    await bench.clear()
    await bench.add_cursors(max(number // 20, 100), -1)
    normal, fire.CURSORS_A_BATCH = fire.CURSORS_A_BATCH, 1
    single = await _fire_all(replica)
    fire.CURSORS_A_BATCH = normal
    await bench.clear()
    return [
        Measured("fired, one replica", batched, "/s", 8_000),
        Measured("fired, one transaction each", single, "/s"),
        Measured("batched / single", batched / single, "times", 5),
    ]


async def _fire_all(replica: Replica) -> float:
    fired, begin = 0, perf_counter()
    while True:
        batch = await fire.fire_batch(replica)
        fired += batch.executions
        if not batch.more:
            return fired / (perf_counter() - begin)


async def memory(bench: Bench) -> list[Measured]:
    """The memory of a scheduler with 100,000 cursors, compared with one cursor."""
    few = await _memory_of_run(bench, 1)
    many = await _memory_of_run(bench, 100_000)
    return [
        Measured("memory with 1 cursor", few, "MB"),
        Measured("memory with 100,000 cursors", many, "MB", few * 1.1, is_time=True),
    ]


async def _memory_of_run(bench: Bench, cursors: int) -> float:
    await bench.add_cursors(cursors, 86_400)
    with replicas(bench, 1) as started:
        await _wait_for_replicas(bench, 1)
        await asyncio.sleep(3)
        status = Path(f"/proc/{started[0].pid}/status").read_text(encoding="ascii")
    await bench.clear()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


async def idle(bench: Bench, number: int) -> list[Measured]:
    """Single occurrences from time to time."""
    lateness = await _lateness(bench, number, processes=1, apart=0.1)
    middle, p99 = _percentiles(lateness)
    return [
        Measured("idle: due to started, median", middle, "ms", 7, is_time=True),
        Measured("idle: due to started, 99 %", p99, "ms", 60, is_time=True),
    ]


async def burst(bench: Bench, number: int, goal: float) -> list[Measured]:
    """Many occurrences at the same instant, two replicas."""
    lateness = await _lateness(bench, number, processes=2)
    middle, p99 = _percentiles(lateness)
    return [
        Measured(f"{number:,} at once: median", middle, "ms"),
        Measured(f"{number:,} at once: 99 %", p99, "ms", goal, is_time=True),
    ]


async def _lateness(
    bench: Bench, number: int, *, processes: int, apart: float = 0.0
) -> list[float]:
    """Measure schedulers that are warmed up with a hundred occurrences."""
    await bench.clear()
    await bench.add_cursors(WARM_UP, 5, name="w")
    due = await bench.add_cursors(number, 7, apart=apart)
    with replicas(bench, processes) as started:
        await _wait_for_replicas(bench, processes)
        await bench.succeeded(WARM_UP + number)
        _stop(started)
    recorded = [json.loads(file.read_text()) for file in bench.folder.glob("lateness/*.json")]
    shutil.rmtree(bench.folder / "lateness")
    first = due.timestamp()
    return [1000 * late for part in recorded for at, late in part if at >= first]


async def full_cycle(bench: Bench, number: int) -> list[Measured]:
    """Fire, claim, run and finish, two replicas."""
    await bench.clear()
    await bench.add_cursors(number, 6)
    with replicas(bench, 2):
        await _wait_for_replicas(bench, 2)
        await bench.succeeded(number)
    seconds = await bench.scalar(
        "SELECT extract(epoch FROM max(finished_at) - min(scheduled_for)) FROM tenantcron.execution"
    )
    return [Measured(f"full cycle, {number:,}", number / seconds, "/s", 4_000)]


async def draining(bench: Bench, number: int, rounds: int) -> list[Measured]:
    """Pending executions, two replicas; and the peer's jobs, two workers; interleaved."""
    has_peer = bool(find_spec("pgqueuer") and find_spec("asyncpg"))
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(await _drain(bench, number))
        if has_peer:
            theirs.append(await _drain_pgqueuer(bench, number))
    measured = [Measured(f"drained, {number:,}", median(ours), "/s")]
    if has_peer:
        ratio = median(own / other for own, other in zip(ours, theirs, strict=True))
        measured += [
            Measured("PGQueuer, batches of 100, 2 processes", median(theirs), "/s"),
            Measured("drained / PGQueuer", ratio, "times", 1),
        ]
    return measured


async def _drain(bench: Bench, number: int) -> float:
    await bench.clear()
    await bench.add_pending(number)
    with replicas(bench, 2):
        await bench.succeeded(number)
    seconds = await bench.scalar(
        "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM tenantcron.execution"
    )
    await bench.clear()
    return number / seconds


async def _drain_pgqueuer(bench: Bench, number: int) -> float:
    """Drain jobs without limits and skips, with asyncpg and uvloop."""
    import asyncpg  # noqa: PLC0415 -- optional dependency
    from pgqueuer import AsyncpgDriver, Queries  # noqa: PLC0415 -- as above

    url = _url(bench)
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    # With new tables each time, like ours.
    if await connection.fetchval("SELECT to_regclass('pgqueuer') IS NOT NULL"):
        await queries.uninstall()
    await queries.install()
    for _ in range(number // 1000):
        await queries.enqueue(["noop"] * 1000, [None] * 1000, [0] * 1000)
    await connection.execute("ANALYZE pgqueuer")
    worker = Path(__file__).with_name("pgqueuer_worker.py")
    started = [
        subprocess.Popen([sys.executable, worker], env=os.environ | {"BENCH_URL": url})
        for _ in range(2)
    ]
    begin = None
    while True:
        left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
        if begin is None and left < number:
            begin, first = perf_counter(), left
        if left == 0 and begin is not None:
            break
        await asyncio.sleep(0.02)
    seconds = perf_counter() - begin
    for process in started:
        process.terminate()
        process.wait()
    await connection.close()
    return float(first / seconds)


def _url(bench: Bench) -> str:
    if bench.place.url is not None:
        return bench.place.url
    parameters = bench.database.target.parameters
    return (
        f"postgresql://{parameters.get('user', 'postgres')}@/{parameters.get('dbname', 'postgres')}"
        f"?host={parameters['host']}"
    )


@contextmanager
def replicas(bench: Bench, number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run schedulers; stop them at the end."""
    (bench.folder / "lateness").mkdir(exist_ok=True)
    environment = bench.place.environment | {
        "PYTHONPATH": str(Path(__file__).parent),
        "BENCH_LATENESS": str(bench.folder / "lateness"),
        "TENANTCRON_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "tenantcron", "run", "--handlers", "noop_saga"]
    started = [subprocess.Popen(command, cwd=bench.folder, env=environment) for _ in range(number)]
    try:
        yield started
    finally:
        _stop(started)


def _stop(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in started:
        if process.wait(timeout=60) != 0:
            raise RuntimeError("a scheduler has failed")


async def _wait_for_replicas(bench: Bench, number: int) -> None:
    while await bench.scalar("SELECT count(*) FROM tenantcron.worker") < number:
        await asyncio.sleep(0.05)


def _percentiles(lateness: Sequence[float]) -> tuple[float, float]:
    return median(lateness), quantiles(lateness, n=100)[98]


async def measure(place: Workspace, *, quick: bool) -> list[Measured]:
    """Measure everything."""
    scale = 10 if quick else 1
    async with open_database(place.settings) as database:
        bench = Bench(database, place)
        await bench.prepare()
        measured = await firing(bench, 40_000 // scale)
        measured += await idle(bench, 300 // scale)
        measured += await burst(bench, 1_000, 250)
        measured += await burst(bench, 10_000 // scale, 2_000)
        measured += await full_cycle(bench, 40_000 // scale)
        measured += await draining(bench, 40_000 // scale, rounds=1 if quick else 5)
        if not quick:
            measured += await memory(bench)
    return measured


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run a tenth of the work")
    add_database_url(parser)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with server(arguments.database_url) as place:
        measured = asyncio.run(measure(place, quick=arguments.quick))
    for figure in measured:
        sign = "<=" if figure.is_time else ">="
        goal = f"{sign} {figure.goal:,.0f}" if figure.goal is not None else ""
        verdict = "missed" if figure.missed else ""
        print(f"{figure.what:42}{figure.value:10,.2f} {figure.unit:6}{goal:>9} {verdict}")
    return int(any(figure.missed for figure in measured))


if __name__ == "__main__":
    sys.exit(main())
