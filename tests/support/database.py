"""A PostgreSQL for the tests: one embedded server per run, one database per test."""

import asyncio
import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from os import getpid
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic
from urllib.parse import quote

import psycopg
from psycopg.errors import ObjectInUse
from psycopg.sql import SQL, Identifier
from support.builds import Build
from support.patience import PATIENCE

from tenantcron.core.settings import Settings
from tenantcron.migrations.runner import migrate
from tenantcron.store.connection.engine import open_database
from tenantcron.store.embedded.home import DATA, FOLDER
from tenantcron.store.embedded.server import ServerUse

TEMPLATE = "migrated"
GUARDED = "guarded"

_SETTINGS = {
    # The sessions of killed schedulers stay until the server notices, which takes a while on a busy
    # machine; and all workers share the server.
    "max_connections": "500",
    # Nothing here outlives the run, so no data has to reach the disk; a copy is ten times faster.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
}

_numbers = count()


@dataclass(frozen=True, slots=True)
class Server:
    """The running server, in which databases are created and dropped."""

    sockets: str
    major: int

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return f"postgresql://postgres@/{database}?host={quote(self.sockets, safe='')}"

    def execute(self, statement: str, *names: str) -> list[tuple[object, ...]]:
        """Run a statement on the server itself; `{}` are placeholders for names."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(SQL(statement).format(*map(Identifier, names)))
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, template: str) -> Iterator[str]:
        """Copy a database, yield the copy's URL, and drop it."""
        name = f"test_{getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {{}} TEMPLATE {{}} {self._strategy}", name, template)
        try:
            yield self.url(name)
        finally:
            self._drop(name)

    @property
    def _strategy(self) -> str:
        """PostgreSQL 14 supports only the strategy that is fast here, and has no option for it."""
        return "" if self.major < 15 else "STRATEGY FILE_COPY"

    def _drop(self, database: str) -> None:
        """Drop a database; the server waits five seconds for sessions, which may be too short."""
        patience = monotonic() + PATIENCE
        while True:
            try:
                self.execute("DROP DATABASE {} WITH (FORCE)", database)
            except ObjectInUse:
                if monotonic() > patience:
                    raise
            else:
                return


@contextmanager
def shared_server(
    folder: Path, build: Build | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Join the server of this test run; the last process that leaves stops it.

    A build other than the embedded one has a separate folder.
    """
    programs = build.programs() if build else None
    use = ServerUse(folder / FOLDER, programs)
    try:
        with (folder / "template.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _ensure_settings(folder / FOLDER, _SETTINGS | dict(settings or {}), programs)
            server = _joined(use)
            _ensure_template(server)
        yield server
    finally:
        use.leave()


@contextmanager
def own_server(
    folder: Path, settings: Mapping[str, str], build: Build | None = None
) -> Iterator[Server]:
    """Run a server with settings that the shared one cannot have, for one test."""
    home = Path(mkdtemp(prefix="own-server-", dir=folder))
    programs = build.programs() if build else None
    use = ServerUse(home / FOLDER, programs)
    try:
        _ensure_settings(home / FOLDER, _SETTINGS | dict(settings), programs)
        yield _joined(use)
    finally:
        use.leave()
        rmtree(home, ignore_errors=True)


def _joined(use: ServerUse) -> Server:
    sockets = use.join().parameters["host"]
    return Server(sockets, int((use.home / DATA / "PG_VERSION").read_text(encoding="ascii")))


def _ensure_settings(home: Path, settings: Mapping[str, str], programs: Path | None) -> None:
    """Configure the server for tests before its first use; only the first process does it."""
    if (home / DATA).exists():
        return
    first = ServerUse(home, programs)
    first.join()
    first.leave()
    with (home / DATA / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())


def _ensure_template(server: Server) -> None:
    """Migrate one database as a template; only the first process does it."""
    if server.execute("SELECT datname FROM pg_database WHERE datname = 'migrated'"):
        return
    _ask_for_a_password(server)
    server.execute("SELECT pg_reload_conf()")
    server.execute("CREATE DATABASE {}", "draft")
    asyncio.run(migrate_url(server.url("draft")))
    server.execute("ALTER DATABASE {} RENAME TO {}", "draft", TEMPLATE)


def _ask_for_a_password(server: Server) -> None:
    """Accept all roles as before, except GUARDED, which needs its password."""
    server.execute("CREATE ROLE {} LOGIN PASSWORD 'right:/@%'", GUARDED)
    rules = Path(str(server.execute("SHOW hba_file")[0][0]))
    before = rules.read_text(encoding="utf-8")
    rules.write_text(f"local all {GUARDED} scram-sha-256\n{before}", encoding="utf-8")


async def migrate_url(url: str) -> None:
    """Migrate the database of a URL."""
    async with open_database(Settings(database_url=url, folder=Path())) as database:
        await migrate(database)
