"""Statements of small transactions are prepared, except behind a pooler."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.database import Server
from support.pgbouncer import pooling
from support.scheduling import Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.errors import DatabaseAwayError

__all__ = ["scheduling"]

PREPARED = "SELECT name FROM pg_catalog.pg_prepared_statements WHERE statement LIKE %(like)s"
COUNT = "SELECT count(*) FROM tenantcron.tenant"
_MINE = {"like": f"{COUNT}%"}


async def prepared(database: Database, *, is_small: bool) -> int:
    """Count tenants in a transaction; return how many such statements its session has."""
    async with database.transaction(is_small=is_small) as connection:
        await connection.exec_driver_sql(COUNT)
        return len((await connection.exec_driver_sql(PREPARED, _MINE)).all())


async def test_a_small_transaction_prepares_its_statements(scheduling: Scheduling) -> None:
    assert await prepared(scheduling.database, is_small=True) == 1
    assert await prepared(scheduling.database, is_small=True) == 1


async def test_other_transactions_prepare_nothing(scheduling: Scheduling) -> None:
    assert await prepared(scheduling.database, is_small=False) == 0


async def test_nothing_is_prepared_behind_a_pooler(
    server: Server, run_folder: Path, scheduling: Scheduling
) -> None:
    name = scheduling.database.target.parameters["dbname"]
    with pooling(server, run_folder) as pooler:
        settings = replace(scheduling.settings, database_url=pooler.url(name))
        async with open_database(settings) as database:
            assert await prepared(database, is_small=True) == 0


async def test_a_statement_whose_result_was_changed_by_a_migration_is_prepared_again(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute("CREATE TABLE tenantcron.growing (a int)")

    async def columns() -> list[str]:
        async with scheduling.database.transaction(is_small=True) as connection:
            found = await connection.exec_driver_sql("SELECT * FROM tenantcron.growing")
            return list(found.keys())

    assert await columns() == ["a"]
    await scheduling.execute("ALTER TABLE tenantcron.growing ADD b int")

    with pytest.raises(DatabaseAwayError):
        await columns()
    assert await columns() == ["a", "b"]


async def test_a_session_without_the_statement_ends_the_preparing(scheduling: Scheduling) -> None:
    """As behind a pooler that passes on the process id of the first session."""
    assert await prepared(scheduling.database, is_small=True) == 1
    await scheduling.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")

    with pytest.raises(DatabaseAwayError):
        await prepared(scheduling.database, is_small=True)
    assert await prepared(scheduling.database, is_small=True) == 0
