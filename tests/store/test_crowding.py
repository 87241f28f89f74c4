"""A server without free connection slots."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from sqlalchemy import text
from support.database import Server, own_server
from support.fleet import Shell

from tenantcron.core.settings import Settings
from tenantcron.store.connection import crowding
from tenantcron.store.connection.engine import open_database
from tenantcron.store.connection.errors import TooManyClientsError

SETTINGS = {"max_connections": "4", "superuser_reserved_connections": "1", "max_wal_senders": "0"}


@pytest.fixture(scope="module")
def small_server(run_folder: Path) -> Iterator[Server]:
    """A server with very few connections, and a role that is not a superuser."""
    with own_server(run_folder, SETTINGS) as server:
        server.execute("CREATE ROLE app LOGIN")
        server.execute("GRANT CREATE ON DATABASE postgres TO app")
        yield server


def url_of_app(server: Server) -> str:
    return urlunsplit(urlsplit(server.url("postgres"))._replace(netloc="app@"))


@contextmanager
def all_taken(server: Server) -> Iterator[ExitStack]:
    """Take all connections; closing the stack releases them."""
    with ExitStack() as stack:
        for _ in range(int(SETTINGS["max_connections"])):
            stack.enter_context(psycopg.connect(server.url("postgres")))
        yield stack


async def test_a_transaction_waits_for_a_connection_that_is_released(
    small_server: Server, tmp_path: Path
) -> None:
    settings = Settings(database_url=url_of_app(small_server), folder=tmp_path)

    async def count() -> object:
        async with open_database(settings) as database, database.transaction() as connection:
            return await connection.scalar(text("SELECT 1"))

    with all_taken(small_server) as taken:
        waiting = asyncio.create_task(count())
        # A rejection takes one round trip, so there are several of them in this time.
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done
        taken.close()
        assert await waiting == 1


@pytest.mark.parametrize("reserved", [False, True])
async def test_the_error_has_instructions_if_no_connection_is_released(
    small_server: Server, tmp_path: Path, reserved: bool
) -> None:
    url = url_of_app(small_server) if reserved else small_server.url("postgres")
    settings = Settings(database_url=url, folder=tmp_path)

    with all_taken(small_server), pytest.raises(TooManyClientsError) as refused:
        async with open_database(settings, patience=timedelta(seconds=0.3)):
            pass

    message = str(refused.value)
    assert "max_connections" in message
    assert "PgBouncer" in message
    assert "Check that the server is running" not in message


def test_a_command_reports_it_and_fails(
    small_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that it does not retry.
    monkeypatch.setattr(crowding, "_FIRST_PAUSE", 3600.0)
    with all_taken(small_server):
        called = Shell(tmp_path, url_of_app(small_server))("tenant", "list")

    assert called.code == 2
    assert called.err.startswith("error: ")
    assert "max_connections" in called.err
