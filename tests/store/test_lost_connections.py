"""The error of a connection that is lost during a transaction."""

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError
from support.fleet import NIGHTLY, Fleet

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseAwayError


def terminate(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def pid_of(connection: Connection) -> int:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.AsyncConnection)
    return driver.info.backend_pid


async def test_every_statement_after_the_loss_reports_the_loss(
    database: Database, database_url: str
) -> None:
    async def lose_and_continue() -> None:
        async with database.transaction() as connection:
            assert connection.sync_connection is not None
            terminate(database_url, pid_of(connection.sync_connection))
            with suppress(DBAPIError):
                await connection.execute(text("SELECT 1"))
            await connection.execute(text("SELECT 2"))

    with pytest.raises(DatabaseAwayError):
        await lose_and_continue()


async def test_a_refresh_that_loses_its_connection_reports_the_loss(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    fleet = Fleet(database, tmp_path / "manifests")
    fleet.folder.mkdir()
    fleet.write("acme", {"nightly": NIGHTLY})
    await fleet.apply()

    def lose(connection: Connection, _: object, statement: str, *__: object) -> None:
        if "tenant_acme" in statement:
            terminate(database_url, pid_of(connection))

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", lose)
    with pytest.raises(DatabaseAwayError):
        await refresh(database, TenantScheduleProvider())
    event.remove(engine, "before_cursor_execute", lose)

    assert (await refresh(database, TenantScheduleProvider())).created == 1
