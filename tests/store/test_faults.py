"""Errors of a database that cannot be used."""

import socket
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import text
from support.database import GUARDED, Server

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.errors import (
    DatabaseAwayError,
    DatabaseError,
    MissingRightsError,
    WrongPasswordError,
)

BACKEND = text("SELECT pg_backend_pid()")


async def opening(url: str) -> DatabaseError:
    """Return the error of opening the database of a URL."""
    with pytest.raises(DatabaseError) as caught:
        async with open_database(Settings(database_url=url, folder=Path())):
            pass
    return caught.value


def guarded(server: Server, password: str) -> str:
    """Return a URL of the role that needs a password."""
    return server.url("postgres").replace("postgres@", f"{GUARDED}:{quote(password, safe='')}@")


@pytest.mark.parametrize("password", ["hunter2", ""])
async def test_a_wrong_password_is_reported_and_not_shown(server: Server, password: str) -> None:
    error = await opening(guarded(server, password))

    assert isinstance(error, WrongPasswordError)
    assert "TENANTCRON_DATABASE_URL" in str(error)
    assert "hunter2" not in str(error)


async def test_a_password_with_special_characters_is_accepted(server: Server) -> None:
    settings = Settings(database_url=guarded(server, "right:/@%"), folder=Path())

    async with open_database(settings) as database, database.transaction() as connection:
        assert await connection.scalar(text("SELECT current_user")) == GUARDED


async def test_an_unreachable_server_is_reported_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    error = await opening(f"postgresql://app:hunter2@127.0.0.1:{port}/x")

    assert isinstance(error, DatabaseAwayError)
    assert f"cannot connect to app@127.0.0.1:{port}/x" in str(error)
    assert "hunter2" not in str(error)
    assert len(str(error).splitlines()) == 1


async def test_an_unknown_host_is_reported() -> None:
    error = await opening("postgresql://app:hunter2@nowhere.invalid/x")

    assert isinstance(error, DatabaseAwayError)
    assert "nowhere.invalid" in str(error)


async def test_an_unknown_database_is_reported(server: Server) -> None:
    error = await opening(server.url("nothing_here"))

    assert isinstance(error, DatabaseAwayError)
    assert 'database "nothing_here" does not exist' in str(error)


async def test_a_missing_privilege_is_reported(server: Server) -> None:
    settings = Settings(database_url=guarded(server, "right:/@%"), folder=Path())

    async with open_database(settings) as database:
        with pytest.raises(MissingRightsError, match="permission denied"):
            async with database.transaction() as connection:
                await connection.execute(text("CREATE SCHEMA mine"))


def end(database_url: str, backend: int) -> None:
    """Terminate a connection, as a restart of the server does."""
    with psycopg.connect(database_url) as session:
        session.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


async def test_a_restarted_server_does_not_fail_the_next_transaction(
    database: Database, database_url: str
) -> None:
    async with database.transaction() as connection:
        before: int = (await connection.execute(BACKEND)).scalar_one()
    end(database_url, before)

    async with database.transaction() as connection:
        assert await connection.scalar(BACKEND) != before


async def test_a_lost_connection_is_reported_and_the_next_one_works(
    database: Database, database_url: str
) -> None:
    async def lose_the_connection() -> None:
        async with database.transaction() as connection:
            end(database_url, (await connection.execute(BACKEND)).scalar_one())
            await connection.execute(BACKEND)

    with pytest.raises(DatabaseAwayError, match="was lost"):
        await lose_the_connection()

    async with database.transaction() as connection:
        assert await connection.scalar(BACKEND)
