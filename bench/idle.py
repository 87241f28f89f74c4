"""The cost of an idle replica for the server: statements per minute, and connections.

    .venv/bin/python bench/idle.py [--tenants 100] [--seconds 60]

A fresh embedded server logs every statement. One replica picks up the schedules, none of which is
due for a year, and closes the connections of its start-up. Then all statements that it sends are
counted: each SET of a transaction, and its COMMIT. Exits with 1 if it sends more than 120
statements per minute or keeps more than 4 connections.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from apply import Fleet
from peers.servers import Postgres
from serving import embedded_server

from tenantcron.store.connection.idle_connections import LONGEST_IDLE
from tenantcron.store.embedded.home import FOLDER

MAX_STATEMENTS, MAX_CONNECTIONS = 120, 4
# Housekeeping starts within a minute, and its connection is closed when it is idle.
STABILISE = 60 + LONGEST_IDLE + 15
LOGGED = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*?)(?=\n\d{4}-|\Z)", re.DOTALL)
SYNCED = "SELECT count(*) FROM tenantcron.tenant WHERE schedule_revision = synced_revision"
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'tenantcron' AND datname = current_database()"
)
# All timetables of the generated manifests fire within a month.
POSTPONE = "UPDATE tenantcron.schedule_cursor SET next_run_at = now() + interval '1 year'"


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    with embedded_server() as folder:
        fleet = Fleet(folder / "manifests", arguments.tenants, 10)
        fleet.folder.mkdir()
        fleet.write(0)
        _run(folder, "apply-manifest", "manifests", "--create-tenants").wait()
        server = Postgres(folder / FOLDER / "postgres", "postgres")
        _run(folder, "run", "--once").wait()
        _execute(server, POSTPONE)
        with _replica(folder):
            statements, connections = _idle(server, arguments.seconds)
    print(f"statements per minute: {statements:.0f}, connections: {connections}")
    return int(statements > MAX_STATEMENTS or connections > MAX_CONNECTIONS)


def _run(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    environment = {key: value for key, value in os.environ.items() if "TENANTCRON" not in key}
    command = [sys.executable, "-m", "tenantcron", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@contextmanager
def _replica(folder: Path) -> Iterator[None]:
    process = _run(folder, "run")
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _idle(server: Postgres, seconds: int) -> tuple[float, int]:
    """Wait until the replica is idle, then count its statements."""
    time.sleep(STABILISE)
    log = server.data / "log"
    for statement in ("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()"):
        _execute(server, statement)
    time.sleep(1)
    begin = len(log.read_text(encoding="utf-8"))
    time.sleep(seconds)
    logged = log.read_text(encoding="utf-8")[begin:]
    sent = sum(_count(match) for match in LOGGED.findall(logged))
    return sent * 60 / seconds, server.number(CONNECTIONS)


def _count(script: str) -> int:
    """Return the number of statements in a message to the server."""
    return script.rstrip("; \n").count(";") + 1


def _execute(server: Postgres, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


if __name__ == "__main__":
    sys.exit(main())
