"""Tasks: submitting and starting them, compared with delayed jobs of other tools.

    .venv/bin/python bench/tasks.py [--quick] [--only submit start waiting api] [--rounds N]

On one embedded server with durable commits, interleaved round by round:

- `submit`: batches of 1,000, against PGQueuer's `enqueue` and Procrastinate's `batch_defer`;
- `start`: two schedulers start tasks that are due at the same second, against PGQueuer's jobs;
- `waiting`: the CPU time of an execution without other tasks, and beside millions that wait;
- `api`: 200 submissions per second through one `tenantcron serve`, while a scheduler runs them.

Goals are ratios within a round, except for the API. Exits with 1 if a goal is missed.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, time

import httpx
from api_server import process, read_response, wait_until_ready
from compare import Testbed, Trial
from peers import catalogue, servers
from peers.catalogue import Peer
from peers.environment import install, installed
from peers.processes import SUBMITTED
from seeding import seeding
from serving import Workspace, embedded_server

from tenantcron.store.embedded.home import FOLDER

PARTS = ("submit", "start", "waiting", "api")
TIMEOUT = 90.0
STARTED = (1_000, 10_000)
# Seconds until this many waiting tasks are inserted, on a busy machine.
_SECONDS_PER_MILLION = 40.0
_DUE_BESIDE_WAITING = 5_000
RATE, API_SECONDS = 200, 10
TENANTS, CONNECTIONS = 50, 32


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    submitted: int = 20_000
    waiting: int = 10_000_000
    rounds: int = 3


_QUICK = Sizes(submitted=10_000, waiting=1_000_000, rounds=1)


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured value and its bound."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the value is out of bounds."""
        is_low = self.at_least is not None and self.value < self.at_least
        return is_low or (self.at_most is not None and self.value > self.at_most)

    def __str__(self) -> str:
        bounds = {"at least": self.at_least, "at most": self.at_most}
        bound = " and ".join(
            f"{word} {value}" for word, value in bounds.items() if value is not None
        )
        return f"{'missed' if self.missed else 'reached'}: {self.name}: {self.value:.2f}, {bound}"


@contextmanager
def _testbed(folder: Path) -> Iterator[Testbed]:
    with tempfile.TemporaryDirectory(prefix="tasks-") as notes:
        postgres = servers.Postgres(folder / FOLDER / "postgres")
        yield Testbed(Path(notes), postgres, None, None)


def submit(bed: Testbed, number: int, rounds: int) -> Iterator[Goal]:
    """Compare how fast batches are submitted."""
    peers = [catalogue.TENANTCRON_TASKS, catalogue.PGQUEUER_JOBS, catalogue.PROCRASTINATE_JOBS]
    rates: dict[str, list[float]] = {}
    os.environ["BENCH_SERVER"] = str(bed.postgres.session.leader)
    for _ in range(rounds):
        for peer in _available(peers):
            elapsed, cpu = _seconds_to_submit(Trial(bed, peer, number, TIMEOUT))
            rates.setdefault(peer.name, []).append(number / cpu)
            print(
                f"submit {peer.name:28} {number / elapsed:8,.0f}/s elapsed,"
                f" {1e6 * cpu / number:6.1f} µs of CPU"
            )
    del os.environ["BENCH_SERVER"]
    ours = catalogue.TENANTCRON_TASKS.name
    for peer, factor in ((catalogue.PGQUEUER_JOBS, 1.0), (catalogue.PROCRASTINATE_JOBS, 5.0)):
        if peer.name in rates:
            ratio = _ratio(rates[ours], rates[peer.name])
            yield Goal(
                f"submitted per CPU second, as a multiple of {peer.name}", ratio, at_least=factor
            )


def _seconds_to_submit(trial: Trial) -> tuple[float, float]:
    """Submit jobs that are not due for an hour; return seconds elapsed, and of CPU."""
    trial.recreate()
    trial.load(time() + 3_600.0)
    elapsed, cpu = (trial.testbed.folder / SUBMITTED).read_text(encoding="ascii").split()
    return float(elapsed), float(cpu)


def start(bed: Testbed, number: int, rounds: int) -> Iterator[Goal]:
    """Compare how fast work that is due at the same second is done."""
    peers = [catalogue.TENANTCRON_TASKS, catalogue.PGQUEUER_JOBS]
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for peer in _available(peers):
            run = Trial(bed, peer, number, TIMEOUT).at_once()
            rates.setdefault(peer.name, []).append(run.rate)
            print(
                f"start {number:6,} {peer.name:24} {run.rate:7,.0f}/s, {run.cpu:6.0f} µs of CPU,"
                f" delayed by {run.median:6.0f} ms, 99%: {run.p99:6.0f} ms; {run.started:,} started"
            )
    ours, theirs = (peer.name for peer in peers)
    if theirs in rates:
        ratio = _ratio(rates[ours], rates[theirs])
        yield Goal(f"{number:,} started, as a multiple of {theirs}", ratio, at_least=1.0)


def waiting(bed: Testbed, number: int, rounds: int) -> Iterator[Goal]:
    """Compare the cost of an execution beside waiting tasks with the cost alone."""
    lead = catalogue.TENANTCRON_TASKS.lead + _SECONDS_PER_MILLION * number / 1_000_000
    costs: dict[int, list[float]] = {0: [], number: []}
    for _ in range(rounds):
        for beside, found in costs.items():
            os.environ["BENCH_WAITING"] = str(beside)
            peer = catalogue.TENANTCRON_TASKS
            patient = replace(peer, lead=lead if beside else peer.lead)
            run = Trial(bed, patient, _DUE_BESIDE_WAITING, TIMEOUT).at_once()
            found.append(run.cpu)
            print(f"beside {beside:10,} waiting tasks: {run.cpu:6.0f} µs of CPU per execution")
    os.environ.pop("BENCH_WAITING", None)
    ratio = _ratio(costs[number], costs[0])
    name = f"CPU per execution beside {number:,} waiting tasks, as a multiple"
    # Much cheaper is as wrong as more expensive: then the two runs are not comparable.
    yield Goal(name, ratio, at_least=0.8, at_most=1.25)


def api(place: Workspace, bed: Testbed) -> Iterator[Goal]:
    """Submit through the API at a fixed rate, while a scheduler runs the tasks."""
    bed.postgres.recreate()
    url = bed.postgres.url
    asyncio.run(_prepare(url))
    port = _free_port()
    own = replace(place, url=url)
    secrets = {"BENCH_RECORDS": str(bed.folder)}
    path = {"PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent / "peers",)))}
    with (
        process(own, "serve", "--anonymous", "--port", str(port)),
        process(own, "run", "--handlers", "recording_saga", **secrets, **path),
    ):
        times = asyncio.run(_submit_at_rate(port, bed))
    p99 = quantiles(times, n=100)[98]
    print(
        f"API at {RATE}/s beside a scheduler: median {1e3 * median(times):.1f} ms,"
        f" 99% {1e3 * p99:.1f} ms, max {1e3 * max(times):.1f} ms"
    )
    yield Goal(f"99% of API submissions at {RATE}/s, in ms", 1e3 * p99, at_most=50)


async def _prepare(url: str) -> None:
    async with seeding(url) as seeds:
        await seeds.prepare()
        await seeds.add_tenants(TENANTS)
        await seeds.add_waiting_tasks(0, tenants=TENANTS)


async def _submit_at_rate(port: int, bed: Testbed) -> list[float]:
    """Return seconds from the planned moment of each request to its response."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        await wait_until_ready(client)
    while not bed.postgres.number(str(catalogue.TENANTCRON.ready)):
        await asyncio.sleep(0.1)
    await _requests(port, RATE)
    return await _requests(port, RATE * API_SECONDS)


async def _requests(port: int, number: int) -> list[float]:
    begin, times = perf_counter() + 0.1, []
    places, codes = iter(range(number)), Counter[int]()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for place in places:
            planned = begin + place / RATE
            await asyncio.sleep(max(planned - perf_counter(), 0))
            writer.write(_request(place))
            codes[await read_response(reader)] += 1
            times.append(perf_counter() - planned)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    if set(codes) != {202}:
        raise RuntimeError(f"not all tasks were accepted, by status: {dict(codes)}")
    return times


def _request(place: int) -> bytes:
    body = json.dumps({"saga": "noop", "payload": {"order": place}}).encode()
    head = (
        f"POST /v1/tenants/t{1 + place % TENANTS}/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _available(peers: list[Peer]) -> list[Peer]:
    return [peer for peer in peers if not peer.needs or installed(peer.needs)]


def _ratio(first: list[float], second: list[float]) -> float:
    """Return the median of the ratios of each round."""
    return median(ours / theirs for ours, theirs in zip(first, second, strict=True))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, 1,000,000 waiting tasks")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    sizes = _QUICK if arguments.quick else Sizes()
    rounds = arguments.rounds or sizes.rounds
    install()
    goals: list[Goal] = []
    with embedded_server() as folder, _testbed(folder) as bed:
        if "submit" in arguments.only:
            goals += submit(bed, sizes.submitted, rounds)
        if "start" in arguments.only:
            for number in STARTED:
                goals += start(bed, number, rounds)
        if "waiting" in arguments.only:
            goals += waiting(bed, sizes.waiting, rounds)
        if "api" in arguments.only:
            goals += api(Workspace(folder), bed)
    print(*goals, sep="\n")
    return int(any(goal.missed for goal in goals))


if __name__ == "__main__":
    sys.exit(main())
