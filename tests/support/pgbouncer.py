"""A real PgBouncer in front of the test server: transaction mode, a few server connections."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row
from support.database import Server
from support.processes import until

from tenantcron.store.embedded.os_users import server_account

# Set where PgBouncer is required; elsewhere the tests are skipped without it.
REQUIRED = "PGBOUNCER_TESTS"
POOL = 4
_CONFIGURATION = """\
[databases]
* = host={sockets} port=5432 {user}

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
{login}
admin_users = postgres
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 500
logfile = {folder}/log
pidfile = {folder}/pid
"""
# Clients log in to the server as themselves; whether they exist is asked there.
_AS_THEMSELVES = {
    "user": "auth_user=postgres",
    "login": "auth_type = trust\nauth_file = {folder}/users",
}
_AS_ONE_USER = {"user": "user=postgres", "login": "auth_type = any"}


@dataclass(frozen=True, slots=True)
class PgBouncer:
    """A running PgBouncer."""

    folder: Path

    def url(self, database: str) -> str:
        """Return the URL of a database behind it."""
        host = quote(str(self.folder), safe="")
        return f"postgresql://postgres@/{database}?host={host}&port=6432"

    def pools(self) -> list[DictRow]:
        """Return the statistics of its pools."""
        # Its console supports the simple protocol only.
        with psycopg.connect(
            self.url("pgbouncer"),
            autocommit=True,
            row_factory=dict_row,
            cursor_factory=psycopg.ClientCursor,
        ) as console:
            return console.execute("SHOW POOLS").fetchall()

    def answers(self) -> bool:
        """Whether it accepts clients."""
        try:
            self.pools()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def pooling(server: Server, run_folder: Path, *, as_one_user: bool = False) -> Iterator[PgBouncer]:
    """Run PgBouncer in front of a server, under an account that is not root."""
    account = server_account()
    folder = Path(mkdtemp(prefix="pgbouncer-", dir=run_folder))
    account.hand_over(folder)
    (folder / "users").write_text('"postgres" ""\n', encoding="utf-8")
    configuration = folder / "pgbouncer.ini"
    users = _AS_ONE_USER if as_one_user else _AS_THEMSELVES
    text = _CONFIGURATION.replace("{user}", users["user"]).replace("{login}", users["login"])
    configuration.write_text(
        text.format(sockets=server.sockets, folder=folder, pool=POOL), encoding="utf-8"
    )
    process = subprocess.Popen([_program(), "--quiet", configuration], cwd="/", **account.switch())
    pooler = PgBouncer(folder)
    try:
        until(lambda: process.poll() is not None or pooler.answers())
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
        yield pooler
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    # Debian installs it in /usr/sbin.
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = shutil.which("pgbouncer", path=path)
    if found is not None:
        return found
    missing = "PgBouncer is missing: install pgbouncer"
    if REQUIRED in os.environ:
        pytest.fail(missing)
    pytest.skip(missing)
