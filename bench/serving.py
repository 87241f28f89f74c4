"""The server that benchmarks run on: a fresh embedded one, or the one of a URL."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Identifier

from tenantcron.core.settings import Settings
from tenantcron.store.embedded.home import FOLDER
from tenantcron.store.embedded.server import ServerUse

_PACKAGED = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A working folder, and the database that commands in it use."""

    folder: Path
    # None: the embedded server of the folder.
    url: str | None = None

    @property
    def settings(self) -> Settings:
        """Return the settings for work in this process."""
        return Settings(folder=self.folder, database_url=self.url)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables for other processes, without settings of the user's shell."""
        kept = {key: value for key, value in os.environ.items() if "TENANTCRON" not in key}
        return kept if self.url is None else kept | {"TENANTCRON_DATABASE_URL": self.url}


def add_database_url(parser: argparse.ArgumentParser) -> None:
    """Add the option for a server."""
    parser.add_argument(
        "--database-url",
        metavar="URL",
        help="measure in a new database on this server instead of an embedded one",
    )


@contextmanager
def server(url: str | None) -> Iterator[Workspace]:
    """Yield an empty database on the server of a URL, or on an embedded one without it."""
    if url is not None:
        with _on(url) as place:
            yield place
        return
    with embedded_server() as folder:
        yield Workspace(folder)


@contextmanager
def embedded_server() -> Iterator[Path]:
    """Keep one server running for all measurements, so that its start is not measured."""
    with _folder() as folder:
        use = ServerUse(folder / FOLDER)
        try:
            use.join()
            yield folder
        finally:
            use.leave()


@contextmanager
def packaged_server() -> Iterator[Workspace | None]:
    """Run the newest server that Debian has installed, with its defaults; None without one."""
    versions = [int(folder.name) for folder in _PACKAGED.glob("[0-9][0-9]")]
    if not versions:
        yield None
        return
    with _folder() as folder:
        use = ServerUse(folder / FOLDER, _PACKAGED / str(max(versions)) / "bin")
        try:
            host = quote(use.join().parameters["host"], safe="")
            yield Workspace(folder, f"postgresql://postgres@/postgres?host={host}")
        finally:
            use.leave()


@contextmanager
def _on(url: str) -> Iterator[Workspace]:
    """Create a database beside the one that the URL names, and drop it at the end."""
    name = f"tenantcron_bench_{os.getpid()}"
    with _folder() as folder, psycopg.connect(url, autocommit=True) as session:
        session.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield Workspace(folder, urlunsplit(urlsplit(url)._replace(path=f"/{name}")))
        finally:
            session.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tenantcron-bench-"))
    # A benchmark that is terminated must not leave its server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
