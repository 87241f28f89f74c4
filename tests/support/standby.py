"""A primary and a standby with real streaming replication, on local ports."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from support.database import migrate_url
from support.gate import Upstream
from support.ports import free_port
from support.processes import query, until

from tenantcron.store.embedded.binaries import programs
from tenantcron.store.embedded.os_users import server_account

_CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
autovacuum = off
"""


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server."""

    data: Path
    port: int

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?gssencmode=disable"

    @property
    def upstream(self) -> Upstream:
        """It as the upstream of a proxy."""
        return Upstream(self.port)

    def start(self) -> None:
        """Start it, and wait until it responds."""
        log = str(self.data / "log")
        options = f"-p {self.port}"
        self.run("pg_ctl", "-w", "-D", str(self.data), "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; `immediate` is like a crash."""
        self.run("pg_ctl", "-w", "-m", mode, "-D", str(self.data), "stop")

    def promote(self) -> None:
        """Promote the standby to primary."""
        self.run("pg_ctl", "-w", "-D", str(self.data), "promote")

    def follow_no_longer(self) -> None:
        """Receive nothing more from the primary, as if the network between them were cut."""
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute("ALTER SYSTEM SET primary_conninfo = ''")
            session.execute("SELECT pg_reload_conf()")
        until(lambda: not query(self.url, "SELECT 1 FROM pg_stat_wal_receiver"))

    def run(self, program: str, *arguments: str) -> None:
        """Run a server program under the account of the servers."""
        with tempfile.TemporaryFile() as output:
            subprocess.run(
                [programs(self.data) / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=True,
                **server_account().switch(),
            )


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary with a migrated database, and its standby."""

    primary: Postgres
    standby: Postgres

    @property
    def url(self) -> str:
        """The URL with both hosts; the standby comes first."""
        hosts = f"127.0.0.1:{self.standby.port},127.0.0.1:{self.primary.port}"
        options = "target_session_attrs=read-write&gssencmode=disable"
        return f"postgresql://postgres@{hosts}/postgres?{options}"

    def wait_for_standby(self) -> None:
        """Wait until the standby has replayed everything that the primary has written."""
        (now,) = query(self.primary.url, "SELECT pg_current_wal_lsn()::text AS lsn")
        statement = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn AS done"
        until(lambda: bool(query(self.standby.url, statement, now["lsn"])[0]["done"]))

    def fail_over(self) -> None:
        """Lose the primary, and promote the standby."""
        self.primary.stop()
        self.standby.promote()


@contextmanager
def replicated(folder: Path) -> Iterator[Pair]:
    """Start a pair in a folder."""
    home = Path(tempfile.mkdtemp(dir=folder))
    server_account().hand_over(home)
    pair = Pair(Postgres(home / "one", free_port()), Postgres(home / "two", free_port()))
    try:
        _start(pair)
        yield pair
    finally:
        for server in (pair.primary, pair.standby):
            if (server.data / "postmaster.pid").exists():
                server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _start(pair: Pair) -> None:
    primary, standby = pair.primary, pair.standby
    trust = ("--auth=trust", "--username=postgres", "--no-locale", "--encoding=UTF8")
    primary.run("initdb", *trust, "--no-sync", "-D", str(primary.data))
    with (primary.data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(_CONFIGURATION)
    primary.start()
    asyncio.run(migrate_url(primary.url))
    source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
    fast = ("--checkpoint=fast", "--no-sync", "--wal-method=stream")
    standby.run("pg_basebackup", *source, *fast, "--write-recovery-conf", "-D", str(standby.data))
    standby.start()
