"""A primary and its standby: synchronous streaming replication between two real servers."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from support.builds import Build
from support.processes import query, until

from tenantcron.store.embedded.os_users import Account, server_account

DATABASE = "postgres"
_PORT = "5432"
_SETTINGS = {
    "fsync": "off",
    # A commit is on the standby before it is acknowledged.
    "synchronous_standby_names": "'*'",
    "listen_addresses": "''",
}
_FOLLOWED = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'"


@dataclass(frozen=True, slots=True)
class Node:
    """One server; its sockets are in its data folder."""

    data: Path
    programs: Path
    account: Account

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/{DATABASE}?host={quote(str(self.data), safe='')}"

    def initialise(self) -> None:
        """Create the data folder."""
        self.data.mkdir(mode=0o700)
        self.account.hand_over(self.data)
        self.run("initdb", "--auth=trust", "--username=postgres", "--no-locale", "--encoding=UTF8")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add settings for the next start."""
        with (self.data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it and wait until it responds."""
        options = f"-k {self.data} -p {_PORT}"
        self.run("pg_ctl", "-w", "-l", str(self.data / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End it as in a crash."""
        self.run("pg_ctl", "-m", "immediate", "stop")

    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def copy_to(self, other: "Node") -> None:
        """Copy the folder of this server, which must not be running."""
        self.run("/bin/cp", "-a", str(self.data), str(other.data))

    def run(self, program: str, *arguments: str) -> None:
        """Run a program under the server's account; without a path, one of the server."""
        done = subprocess.run(
            [self.programs / program, *arguments],
            env={"PGDATA": str(self.data), "LC_ALL": "C"},
            cwd="/",
            # A pipe would stay open for as long as the server runs.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            **self.account.switch(),
        )
        assert done.returncode == 0, (program, done)


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its standby."""

    primary: Node
    standby: Node

    @property
    def url(self) -> str:
        """Return the URL of both, with the writable one selected."""
        hosts = quote(f"{self.primary.data},{self.standby.data}", safe=",")
        return f"postgresql://postgres@/{DATABASE}?host={hosts}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.kill()
        with psycopg.connect(self.standby.url, autocommit=True) as session:
            session.execute("SELECT pg_promote()")
        until(lambda: not query(self.standby.url, "SELECT 1 WHERE pg_is_in_recovery()"))


@contextmanager
def replicating(folder: Path, build: Build) -> Iterator[Pair]:
    """Run a primary and a synced standby, in a folder that the account can write."""
    account, programs = server_account(), build.programs()
    account.let_use(programs)
    primary, standby = (Node(folder / name, programs, account) for name in ("primary", "standby"))
    try:
        primary.initialise()
        primary.configure(_SETTINGS)
        primary.copy_to(standby)
        standby.configure(
            {
                "primary_conninfo": f"'host={primary.data} port={_PORT} user=postgres'",
                # It has no standby itself.
                "synchronous_standby_names": "''",
            }
        )
        (standby.data / "standby.signal").touch()
        primary.start()
        standby.start()
        until(lambda: bool(query(primary.url, _FOLLOWED)))
        yield Pair(primary, standby)
    finally:
        for node in (standby, primary):
            if node.is_running():
                node.kill()
