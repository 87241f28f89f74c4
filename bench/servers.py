"""The CPU time of the hot steps on a server, compared with the embedded one.

    .venv/bin/python bench/servers.py [--database-url URL] [--rounds N] [--number N]

Without a URL the other server is the one that Debian packages, with its defaults. The two alternate
within one run, and only CPU time counts: of this process, and of its server processes. So the
ratios are valid even on a busy machine, unlike the figures of `scheduler.py`. Exits with 1 if a
step costs more than 1.3 times as much on the other server.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import process_time

import structlog
from seeding import NOOP, Seeding
from serving import Workspace, add_database_url, packaged_server, server
from sqlalchemy import text

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps import fire
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.times import database_time
from tenantcron.store.steps.claiming import Claimed

TENANTS = 200
SINGLES = 60
FINISHED_AT_ONCE = 400
GOAL = 1.3
_BACKENDS = text(
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'"
)
_CLEAR = (
    "TRUNCATE tenantcron.execution",
    "TRUNCATE tenantcron.execution_attempt",
    "DELETE FROM tenantcron.schedule_cursor",
)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two servers, and the microseconds per execution of each step there."""

    place: Workspace
    database: Database
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def replica(self) -> Replica:
        """Return a scheduler that runs its steps in this process."""
        return Replica(self.database, self.place.settings, capabilities=NOOP)

    async def prepare(self) -> None:
        """Create the tables and the tenants."""
        seeds = Seeding(self.database, self.place.settings)
        await seeds.prepare()
        await seeds.add_tenants(TENANTS)

    async def fill(self, number: int) -> None:
        """Make this many schedules due, and remove everything else."""
        async with self.database.transaction() as connection:
            for statement in _CLEAR:
                await connection.execute(text(statement))
            due = await database_time(connection) - timedelta(seconds=1)
        seeds = Seeding(self.database, self.place.settings)
        await seeds.add_cursors(number, due, tenants=TENANTS, name="s", apart=0.0)

    async def measure(self, what: str, number: int, work: Callable[[], Awaitable[object]]) -> None:
        """Record the CPU time of a step."""
        before, own = await self._server_seconds(), process_time()
        await work()
        own = process_time() - own
        both = await self._server_seconds() - before + own
        self.took[what].append(both / number * 1e6)

    async def _server_seconds(self) -> float:
        async with self.database.transaction() as connection:
            pids = (await connection.execute(_BACKENDS)).scalars().all()
        files = (Path(f"/proc/{pid}/schedstat") for pid in pids)
        return sum(int(file.read_text().split()[0]) for file in files if file.exists()) / 1e9


async def measure_round(side: Side, number: int) -> None:
    """Run all steps once in batches, then one execution at a time."""
    replica, started = side.replica, list[Claimed]()

    async def fire_all() -> None:
        while (await fire.fire_batch(replica)).more:
            pass

    async def claim_all() -> None:
        while claimed := (await claim_batch(replica)).started:
            started.extend(claimed)

    async def finish_all() -> None:
        for start in range(0, len(started), FINISHED_AT_ONCE):
            await succeed(replica, started[start : start + FINISHED_AT_ONCE])

    await side.fill(number)
    await side.measure("fire", number, fire_all)
    await side.measure("claim", number, claim_all)
    await side.measure("finish", number, finish_all)
    await side.fill(SINGLES)
    await side.measure("fire, claim and finish one at a time", SINGLES, lambda: singly(replica))


async def singly(replica: Replica) -> None:
    """Run the three steps for each execution separately."""
    default, fire.CURSORS_A_BATCH = fire.CURSORS_A_BATCH, 1
    for _ in range(SINGLES):
        await fire.fire_batch(replica)
        await succeed(replica, list((await claim_batch(replica)).started))
    fire.CURSORS_A_BATCH = default


async def succeed(replica: Replica, started: list[Claimed]) -> None:
    """Record that executions have succeeded."""
    await finish_batch(replica, [Attempt(claimed, AttemptOutcome.SUCCEEDED) for claimed in started])


async def measure(places: list[Workspace], rounds: int, number: int) -> list[Side]:
    """Alternate between the servers; the first round only warms them up."""
    async with AsyncExitStack() as stack:
        sides = []
        for place in places:
            database = await stack.enter_async_context(open_database(place.settings))
            sides.append(Side(place, database))
            await sides[-1].prepare()
        for turn in range(rounds + 1):
            for side in sides if turn % 2 else reversed(sides):
                await measure_round(side, number)
            if turn == 0:
                for side in sides:
                    side.took.clear()
        return sides


def report(embedded: Side, other: Side) -> Iterator[float]:
    """Print a line for each step, and yield the ratio."""
    for what, took in embedded.took.items():
        here, there = median(took), median(other.took[what])
        print(f"{what:38}{here:10,.1f} µs{there:10,.1f} µs{there / here:8.2f} times")
        yield there / here


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_database_url(parser)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--number", type=int, default=2_000)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    url: str | None = arguments.database_url
    with server(None) as embedded, packaged_server() if url is None else server(url) as other:
        if other is None:
            print("no other server: install postgresql, or pass --database-url")
            return 0
        places = [embedded, other]
        sides = asyncio.run(measure(places, arguments.rounds, arguments.number))
    return int(max(report(*sides)) > GOAL)


if __name__ == "__main__":
    sys.exit(main())
