"""The engine: transactions and statements on the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import RaiseException
from sqlalchemy import event, select, text
from sqlalchemy.exc import ProgrammingError
from support.tenants import add_current

from tenantcron.core.settings import Settings
from tenantcron.store.connection import engine
from tenantcron.store.connection.engine import Database, of_tenant, open_database
from tenantcron.store.connection.errors import ServerTooOldError
from tenantcron.store.schema import tables
from tenantcron.store.schema.tenant_tables import create_tenant_schema

SESSION = text(
    "SELECT current_setting('transaction_isolation'), current_setting('search_path'),"
    " current_setting('application_name')"
)
# There is no built-in operator `=` for two varchars, so this one is a better match.
PLANTED = """
CREATE FUNCTION public.planted(varchar, varchar) RETURNS boolean LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.planted);
"""


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """Collect the statements that are sent to the database."""
    sent: list[str] = []

    def collect(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    event.listen(database.engine.sync_engine, "before_cursor_execute", collect)
    yield sent
    event.remove(database.engine.sync_engine, "before_cursor_execute", collect)


async def test_a_transaction_is_read_committed_and_sees_only_built_ins(database: Database) -> None:
    async with database.transaction() as connection:
        row = await connection.execute(SESSION)

    assert row.one() == ("read committed", "pg_catalog", "tenantcron")


async def test_a_transaction_begins_in_one_round_trip(database: Database) -> None:
    with statements(database) as sent:
        async with database.transaction() as connection:
            await connection.scalar(text("SELECT 1"))

    assert len(sent) == 2


async def test_no_setting_of_a_transaction_stays_on_the_connection(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(SESSION)
    async with database.engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, psycopg.AsyncConnection)
        shown = await driver.execute("SHOW search_path")
        assert await shown.fetchone() == ('"$user", public',)


async def test_no_statement_is_prepared(database: Database) -> None:
    async with database.transaction() as connection:
        for _ in range(10):
            await connection.execute(select(tables.tenant).where(tables.tenant.c.id == "acme"))
        prepared = await connection.scalar(text("SELECT count(*) FROM pg_prepared_statements"))

    assert prepared == 0


async def test_a_transaction_commits_at_its_end(database: Database) -> None:
    async with database.transaction() as connection:
        await add_current(connection, "acme")

    async with database.transaction() as connection:
        assert await connection.scalar(select(tables.tenant.c.id)) == "acme"


async def test_a_transaction_is_rolled_back_by_an_exception(database: Database) -> None:
    async def fail_in_between() -> None:
        async with database.transaction() as connection:
            await add_current(connection, "acme")
            raise LookupError

    with pytest.raises(LookupError):
        await fail_in_between()

    async with database.transaction() as connection:
        assert await connection.scalar(select(tables.tenant.c.id)) is None


async def test_a_malicious_operator_does_not_hijack_our_statements(
    database: Database, database_url: str
) -> None:
    statement = "SELECT id FROM tenantcron.tenant WHERE id = schema_name"
    async with database.transaction() as connection:
        await add_current(connection, "acme")
    with psycopg.connect(database_url) as session:
        session.execute(PLANTED)
        session.commit()
        with pytest.raises(RaiseException, match="hijacked"):
            session.execute(statement)

    async with database.transaction() as connection:
        assert (await connection.execute(text(statement))).all() == []


async def test_statements_use_the_schema_of_the_last_named_tenant(database: Database) -> None:
    async with database.transaction() as connection:
        for schema in ("tenant_a", 'tenant_"b'):
            await create_tenant_schema(connection, schema)
        with statements(database) as sent:
            await of_tenant(connection, "tenant_a").execute(select(tables.tenant_schedule.c.id))
            await of_tenant(connection, 'tenant_"b').execute(select(tables.tenant_schedule.c.id))
            await connection.execute(select(tables.tenant.c.id))

    assert "FROM tenant_a.tenant_schedule" in sent[0]
    assert 'FROM "tenant_""b".tenant_schedule' in sent[1]
    assert "FROM tenantcron.tenant" in sent[2]


async def test_without_a_tenant_a_statement_fails(database: Database) -> None:
    async def forget_the_tenant() -> None:
        async with database.transaction() as connection:
            await create_tenant_schema(connection, "tenant_a")
            await connection.execute(select(tables.tenant_schedule))

    with pytest.raises(ProgrammingError, match=r"tenant\.tenant_schedule"):
        await forget_the_tenant()


async def test_a_tenant_named_in_one_transaction_is_forgotten_in_the_next(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(of_tenant(connection, "tenant_a"), "tenant_a")

    with pytest.raises(ProgrammingError, match=r"tenant\.tenant_schedule"):
        async with database.transaction() as connection:
            await connection.execute(select(tables.tenant_schedule))


async def test_an_old_server_is_rejected(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "OLDEST_SERVER", 99)

    with pytest.raises(ServerTooOldError, match="needs 99 or newer"):
        async with open_database(Settings(database_url=database_url, folder=tmp_path)):
            pass
