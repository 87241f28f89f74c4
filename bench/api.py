"""Reads per second of one API process, and the lateness of the scheduler meanwhile.

    .venv/bin/python bench/api.py [--quick]

Runs on a fresh embedded server with its durable defaults: 200 tenants with history, one `tenantcron
serve` process, and one `tenantcron run` process with occurrences coming due. Reads of several kinds
are sent at a fixed rate over some connections, with a token bound to a tenant and with one for all.
Exits with 1 if a goal is missed. The machine should be otherwise idle; the client needs a core,
too.
"""

import argparse
import asyncio
import socket
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle, islice
from statistics import median, quantiles
from time import perf_counter

import httpx
import psutil
from api_server import READS, TENANTS, prepare, process, read_response, token, wait_until_ready
from serving import Workspace, add_database_url, server
from sqlalchemy import text

from tenantcron.cron.zones import tz_version
from tenantcron.provider.static_settings import DEFAULTS as DEFINITION
from tenantcron.scheduler.replica.polling_loops import LONGEST_SLEEP
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import schedule_definitions

CONNECTIONS = 16
GOAL = 200
# What one process should handle, so that the goal is met with a margin.
MARGIN = 300
# There is no notification for cursors that no refresh added: a sleeping loop finds them at last.
LEAD = LONGEST_SLEEP + 2
_CURSORS = text(
    "INSERT INTO tenantcron.schedule_cursor (schedule_id, tenant_id, schedule_name, saga_name,"
    " provider, cron_expr, timezone, tz_version, enabled, definition_id, effective_from,"
    " next_run_at)"
    " SELECT gen_random_uuid(), 't' || 1 + i % :tenants, 's' || i, 'noop', 'bench', '0 0 1 1 *',"
    " 'UTC', :tz_version, true, :definition, now(), :due + i * make_interval(secs => :apart)"
    " FROM generate_series(1, :number) AS i"
)
_LATENESS = text(
    "SELECT extract(epoch FROM started_at - not_before) FROM tenantcron.execution"
    " WHERE schedule_name <> 'past' AND started_at IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Load:
    """Duration and rate of the reads."""

    seconds: int
    reads: int


async def schedule(database: Database, number: int, span: float) -> None:
    """Make occurrences come due, evenly over the measured time."""
    definition = schedule_definitions.definition_id(DEFINITION)
    async with database.transaction() as connection:
        await schedule_definitions.add(connection, {definition: DEFINITION})
        parameters = {
            "tenants": TENANTS,
            "number": number,
            "tz_version": tz_version(),
            "definition": definition,
            "due": await database_time(connection) + timedelta(seconds=LEAD),
            "apart": span / number,
        }
        await connection.execute(_CURSORS, parameters)


async def send(
    address: tuple[str, int], tokens: list[str], load: Load
) -> tuple[list[float], Counter[int], float]:
    """Send reads at the given rate, over some connections that take turns.

    Return how long each took from when it was due, the statuses, and the responses per second. The
    client is minimal: a full HTTP client would cost as much CPU as the server.
    """
    wanted = islice(zip(cycle(READS), cycle(tokens), strict=False), load.reads * load.seconds)
    due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
    times: list[float] = []
    codes: Counter[int] = Counter()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(*address)
        while (item := await due.get()) is not None:
            begun, request = item
            writer.write(request)
            codes[await read_response(reader)] += 1
            times.append(perf_counter() - begun)
        writer.close()

    begin = perf_counter()
    tasks = [asyncio.create_task(connection()) for _ in range(CONNECTIONS)]
    for number, (path, bearer) in enumerate(wanted):
        ahead = begin + number / load.reads - perf_counter()
        if ahead > 0:
            await asyncio.sleep(ahead)
        head = f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {bearer}\r\n\r\n"
        due.put_nowait((perf_counter(), head.encode()))
    for _ in tasks:
        due.put_nowait(None)
    await asyncio.gather(*tasks)
    return times, codes, len(times) / (perf_counter() - begin)


async def lateness(database: Database) -> list[float]:
    """Return the lateness of started executions, in milliseconds."""
    async with database.transaction() as connection:
        found = await connection.scalars(_LATENESS)
        return sorted(float(seconds) * 1000 for seconds in found)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one rate, and the lateness of executions meanwhile."""

    what: str
    late: list[float]
    load: Load | None = None
    times: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    rate: float = 0.0
    # CPU time of the service per read, in milliseconds.
    cost: float = 0.0


async def measure(place: Workspace, *, quick: bool) -> bool:
    """Measure the scheduler alone and beside the API; return whether all goals are met."""
    seconds = 5 if quick else 15
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    async with open_database(place.settings) as database:
        await prepare(database)
        tokens = [await token(database, None), await token(database, "t7")]
        address, url = ("127.0.0.1", int(port)), f"http://127.0.0.1:{port}"
        with (
            process(place, "serve", "--port", port) as service,
            process(place, "run", "--handlers", "noop_saga"),
        ):
            async with httpx.AsyncClient(base_url=url) as client:
                await wait_until_ready(client)
            await send(address, tokens, Load(2, 50))
            met = True
            for reads in (0, GOAL, MARGIN):
                load = Load(seconds, reads)
                found = await measure_one(database, service.pid, address, tokens, load)
                met &= report(found)
    return met


async def measure_one(
    database: Database, service: int, address: tuple[str, int], tokens: list[str], load: Load
) -> Measured:
    """Make executions come due, and send reads at a rate meanwhile."""
    async with database.transaction() as connection:
        await connection.execute(text("DELETE FROM tenantcron.schedule_cursor"))
        await connection.execute(
            text("DELETE FROM tenantcron.execution WHERE schedule_name <> 'past'")
        )
    await schedule(database, load.seconds * 20, load.seconds)
    await asyncio.sleep(LEAD)
    if not load.reads:
        await asyncio.sleep(load.seconds + 2)
        return Measured("alone", await lateness(database))
    before = cpu_seconds(service)
    times, codes, rate = await send(address, tokens, load)
    cost = (cpu_seconds(service) - before) / len(times) * 1000
    await asyncio.sleep(2)
    what = f"beside {load.reads} reads per second"
    return Measured(what, await lateness(database), load, times, codes, rate, cost)


def cpu_seconds(service: int) -> float:
    """Return the CPU time that a process has used."""
    used = psutil.Process(service).cpu_times()
    return float(used.user + used.system)


def report(found: Measured) -> bool:
    """Print the figures; return whether the goals are met."""
    print(
        f"scheduler {found.what}: {len(found.late)} executions, median lateness"
        f" {median(found.late):.0f} ms, 99 % {quantiles(found.late, n=100)[98]:.0f} ms"
    )
    if found.load is None:
        return True
    ms = [taken * 1000 for taken in found.times]
    print(
        f"  reads: {found.rate:.0f} per second, median {median(ms):.1f} ms,"
        f" 99 % {quantiles(ms, n=100)[98]:.1f} ms, {found.cost:.2f} ms of CPU"
        f" per read in the service, by status {dict(found.codes)}"
    )
    return set(found.codes) == {200} and found.rate >= found.load.reads * 0.98


def main() -> int:
    """Measure on a separate server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run for a few seconds only")
    add_database_url(parser)
    arguments = parser.parse_args()
    with server(arguments.database_url) as place:
        return 0 if asyncio.run(measure(place, quick=arguments.quick)) else 1


if __name__ == "__main__":
    sys.exit(main())
