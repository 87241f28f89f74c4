"""What this Postgres can take at all, and how much of it firing uses.

    .venv/bin/python bench/limits.py [--quick] [--number 20000] [--rounds 3]

Firing writes rows and moves cursors. Here the very rows that it wrote are written again, without
everything else that firing does: by plain INSERT in batches of the same size, and by COPY. All of
it on one connection, on a fresh embedded server with durable commits, into the same table with its
indexes, in turns. pgbench, which comes with the server, tells what small transactions cost. Ends
with 1 if firing reaches less than half of the plain INSERT.
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

from tenantcron.scheduler import fire
from tenantcron.scheduler.replica import Replica
from tenantcron.store.binaries import programs
from tenantcron.store.embedded import FOLDER

AIM = 0.5
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
}
Row = tuple[object, ...]
Connection = psycopg.Connection[Row]

_NAMES = SQL(", ").join(map(Identifier, COLUMNS))
_INSERT = SQL("INSERT INTO tenantcron.execution ({}) SELECT * FROM unnest({})").format(
    _NAMES, SQL(", ").join(SQL("%s::" + kind + "[]") for kind in COLUMNS.values())
)
_COPY = SQL("COPY tenantcron.execution ({}) FROM STDIN").format(_NAMES)
_FIRED = SQL("SELECT {} FROM tenantcron.execution_live").format(_NAMES)
_FORGET = "TRUNCATE tenantcron.execution_live"


async def _fire(filled: Seeding, number: int) -> float:
    """Fire so many that are due, and return how many a second."""
    await filled.clear()
    await filled.add_tenants(TENANTS)
    await filled.add_cursors(number, datetime.now(UTC) - timedelta(seconds=1), tenants=TENANTS)
    replica = Replica(filled.database, filled.settings, capabilities=NOOP)
    fired, more, begin = 0, True, perf_counter()
    while more:
        batch = await fire.fire_batch(replica)
        fired, more = fired + batch.executions, batch.more
    if fired != number:
        raise RuntimeError(f"{fired} were fired, not {number}")
    return fired / (perf_counter() - begin)


def _insert(connection: Connection, rows: list[Row]) -> float:
    """Write the rows by INSERT, a batch a transaction."""
    batches = [[list(column) for column in zip(*some, strict=True)] for some in _batches(rows)]
    connection.execute(_FORGET)
    begin = perf_counter()
    for columns in batches:
        connection.execute(_INSERT, columns)
    return len(rows) / (perf_counter() - begin)


def _copy(connection: Connection, batches: list[list[Row]]) -> float:
    """Write the rows by COPY, a batch a transaction."""
    connection.execute(_FORGET)
    begin = perf_counter()
    for some in batches:
        with connection.cursor().copy(_COPY) as copy:
            for row in some:
                copy.write_row(row)
    return sum(map(len, batches)) / (perf_counter() - begin)


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    """As many a batch as firing takes."""
    for start in range(0, len(rows), fire.CURSORS_A_BATCH):
        yield rows[start : start + fire.CURSORS_A_BATCH]


async def _round(filled: Seeding, postgres: Postgres, number: int) -> dict[str, float]:
    """Measure each once, on the rows that firing has just written."""
    fired = await _fire(filled, number)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        rows = connection.execute(_FIRED).fetchall()
        inserted = _insert(connection, rows)
        return {
            "fired": fired,
            "inserted": inserted,
            "copied in batches": _copy(connection, list(_batches(rows))),
            "copied at once": _copy(connection, [rows]),
            "fired to inserted": fired / inserted,
        }


async def _rounds(postgres: Postgres, number: int, rounds: int) -> dict[str, float]:
    """Return the median of each figure."""
    async with seeding(postgres.url) as filled:
        await filled.prepare()
        all_of_them = [await _round(filled, postgres, number) for _ in range(rounds)]
    return {name: median(one[name] for one in all_of_them) for name in all_of_them[0]}


def _pgbench(postgres: Postgres, seconds: int) -> dict[str, float]:
    """Return transactions a second of an update, an update with an insert, and TPC-B."""
    program = programs(postgres.data) / "pgbench"
    if not program.exists():
        return {}
    _pgbench_says(program, "-i", "-q", "-s", "10", postgres.url)
    found = {}
    for clients in (1, 2):
        for words, script in (("update and insert", "simple-update"), ("TPC-B", "tpcb-like")):
            name = f"pgbench, {words}, {clients} client{'s' * (clients > 1)}"
            load = ("-n", "-b", script, "-c", str(clients), "-T", str(seconds))
            answer = _pgbench_says(program, *load, postgres.url)
            match = re.search(r"tps = ([0-9.]+)", answer)
            found[name] = float(match[1]) if match else 0.0
    return found


def _pgbench_says(program: Path, *words: str) -> str:
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of it")
    parser.add_argument("--number", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    part = 4 if arguments.quick else 1
    with embedded_server() as folder:
        postgres = Postgres(folder / FOLDER / "postgres")
        postgres.renew()
        found = asyncio.run(_rounds(postgres, arguments.number // part, arguments.rounds))
        share = found.pop("fired to inserted")
        found |= _pgbench(postgres, PGBENCH_SECONDS // part)
    for name, rate in found.items():
        print(f"{name:42}{rate:10,.0f} /s")
    verdict = "missed" if share < AIM else "met"
    print(f"{'fired to inserted':42}{share:10.2f} times, aim {AIM}: {verdict}")
    return int(share < AIM)


if __name__ == "__main__":
    sys.exit(main())
