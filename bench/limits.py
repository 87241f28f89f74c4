"""How fast this Postgres can insert rows, and how much of that firing achieves.

    .venv/bin/python bench/limits.py [--quick] [--number 20000] [--rounds 3]

Firing inserts rows and moves cursors. Here the same rows are inserted again without the other work
of firing: with plain INSERT in batches of the same size, and with COPY. All of it uses one
connection, on a fresh embedded server with durable commits, into the same table with its indexes,
interleaved. pgbench, which comes with the server, shows the cost of small transactions. Exits with
1 if firing reaches less than 0.7 times the plain INSERT.
"""

import argparse
import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

import psycopg
from peers.servers import Postgres
from psycopg.sql import SQL, Identifier
from seeding import NOOP, Seeding, seeding
from serving import embedded_server

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps import fire
from tenantcron.store.embedded.binaries import programs
from tenantcron.store.embedded.home import FOLDER

GOAL = 0.7
TENANTS = 200
PGBENCH_SECONDS = 10

# The columns that firing writes, and their types.
COLUMNS = {
    "id": "uuid",
    "tenant_id": "text",
    "schedule_id": "uuid",
    "schedule_name": "text",
    "saga_name": "text",
    "definition_id": "uuid",
    "scheduled_for": "timestamptz",
    "state": "text",
    "reason_code": "text",
    "reason": "text",
    "overlap": "text",
    "priority": "smallint",
    "not_before": "timestamptz",
    "start_deadline": "timestamptz",
    "attempts_allowed": "int",
    "actor_id": "text",
    "actor_type": "text",
    "actor_source": "text",
    "covers_from": "timestamptz",
    "missed_count": "int",
    "created_at": "timestamptz",
    "finished_at": "timestamptz",
    "requires": "text",
}
Row = tuple[object, ...]
Connection = psycopg.Connection[Row]

_NAMES = SQL(", ").join(map(Identifier, COLUMNS))
_INSERT = SQL("INSERT INTO tenantcron.execution ({}) SELECT * FROM unnest({})").format(
    _NAMES, SQL(", ").join(SQL("%s::" + kind + "[]") for kind in COLUMNS.values())
)
_COPY = SQL("COPY tenantcron.execution ({}) FROM STDIN").format(_NAMES)
_FIRED = SQL("SELECT {} FROM tenantcron.execution_live").format(_NAMES)
_CLEAR = "TRUNCATE tenantcron.execution_live"


async def _fire(seeds: Seeding, number: int) -> float:
    """Fire all due occurrences, and return the rate per second."""
    await seeds.clear()
    await seeds.add_tenants(TENANTS)
    await seeds.add_cursors(number, datetime.now(UTC) - timedelta(seconds=1), tenants=TENANTS)
    replica = Replica(seeds.database, seeds.settings, capabilities=NOOP)
    fired, more, begin = 0, True, perf_counter()
    while more:
        batch = await fire.fire_batch(replica)
        fired, more = fired + batch.executions, batch.more
    if fired != number:
        raise RuntimeError(f"{fired} were fired instead of {number}")
    return fired / (perf_counter() - begin)


def _insert(connection: Connection, rows: list[Row]) -> float:
    """Insert the rows with INSERT, one batch per transaction."""
    batches = [[list(column) for column in zip(*batch, strict=True)] for batch in _batches(rows)]
    connection.execute(_CLEAR)
    begin = perf_counter()
    for columns in batches:
        connection.execute(_INSERT, columns)
    return len(rows) / (perf_counter() - begin)


def _copy(connection: Connection, batches: list[list[Row]]) -> float:
    """Insert the rows with COPY, one batch per transaction."""
    connection.execute(_CLEAR)
    begin = perf_counter()
    for batch in batches:
        with connection.cursor().copy(_COPY) as copy:
            for row in batch:
                copy.write_row(row)
    return sum(map(len, batches)) / (perf_counter() - begin)


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield batches of the size that firing uses."""
    for start in range(0, len(rows), fire.CURSORS_A_BATCH):
        yield rows[start : start + fire.CURSORS_A_BATCH]


async def _round(seeds: Seeding, postgres: Postgres, number: int) -> dict[str, float]:
    """Measure each once, on the rows that firing has just written."""
    fired = await _fire(seeds, number)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        rows = connection.execute(_FIRED).fetchall()
        inserted = _insert(connection, rows)
        return {
            "fired": fired,
            "inserted": inserted,
            "copied in batches": _copy(connection, list(_batches(rows))),
            "copied at once": _copy(connection, [rows]),
            "fired / inserted": fired / inserted,
        }


async def _rounds(postgres: Postgres, number: int, rounds: int) -> dict[str, float]:
    """Return the median of each figure."""
    async with seeding(postgres.url) as seeds:
        await seeds.prepare()
        results = [await _round(seeds, postgres, number) for _ in range(rounds)]
    return {name: median(result[name] for result in results) for name in results[0]}


def _pgbench(postgres: Postgres, seconds: int) -> dict[str, float]:
    """Return transactions per second of an update, an update with an insert, and TPC-B."""
    program = programs(postgres.data) / "pgbench"
    if not program.exists():
        return {}
    _run_pgbench(program, "-i", "-q", "-s", "10", postgres.url)
    found = {}
    for clients in (1, 2):
        for label, script in (("update and insert", "simple-update"), ("TPC-B", "tpcb-like")):
            name = f"pgbench, {label}, {clients} client{'s' * (clients > 1)}"
            load = ("-n", "-b", script, "-c", str(clients), "-T", str(seconds))
            output = _run_pgbench(program, *load, postgres.url)
            match = re.search(r"tps = ([0-9.]+)", output)
            found[name] = float(match[1]) if match else 0.0
    return found


def _run_pgbench(program: Path, *options: str) -> str:
    return subprocess.run([program, *options], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run a quarter of the work")
    parser.add_argument("--number", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    part = 4 if arguments.quick else 1
    with embedded_server() as folder:
        postgres = Postgres(folder / FOLDER / "postgres")
        postgres.recreate()
        found = asyncio.run(_rounds(postgres, arguments.number // part, arguments.rounds))
        share = found.pop("fired / inserted")
        found |= _pgbench(postgres, PGBENCH_SECONDS // part)
    for name, rate in found.items():
        print(f"{name:42}{rate:10,.0f} /s")
    verdict = "missed" if share < GOAL else "met"
    print(f"{'fired / inserted':42}{share:10.2f} times, goal {GOAL}: {verdict}")
    return int(share < GOAL)


if __name__ == "__main__":
    sys.exit(main())
