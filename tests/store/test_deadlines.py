"""A server that stops responding: every call ends in time, and the next one succeeds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from support.gate import Gate, gate
from support.processes import query, until

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.store.connection import deadlines
from tenantcron.store.connection.database_urls import target_of
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.errors import DatabaseAwayError
from tenantcron.store.connection.handler_transactions import HandlerScope, HandlerTransactions
from tenantcron.store.connection.listening import ListeningError, listening

SHORT = timedelta(milliseconds=300)
# Far below the ten seconds that psycopg waits for a cancelled statement, and far above SHORT.
SOON = 5.0
QUERY = text("SELECT 1")


@pytest.fixture
def silent(database_url: str) -> Iterator[Gate]:
    """A gate in front of the test's database."""
    with gate(database_url) as between:
        yield between


@pytest.fixture
async def through(silent: Gate, tmp_path: Path) -> AsyncIterator[Database]:
    """The database through the gate, with short deadlines."""
    settings = Settings(database_url=f"{silent.url}&connect_timeout=2", folder=tmp_path)
    async with open_database(settings) as opened:
        yield opened.patient(SHORT)


async def select_one(database: Database) -> None:
    """Run one transaction."""
    async with database.transaction() as connection:
        await connection.execute(QUERY)


async def test_a_silent_server_is_an_error_after_the_deadline_until_it_responds(
    through: Database, silent: Gate
) -> None:
    await select_one(through)
    silent.fall_silent()
    started = monotonic()

    with pytest.raises(DatabaseAwayError):
        await select_one(through)
    assert monotonic() - started < SOON

    silent.speak()
    await select_one(through)


async def test_a_server_that_stops_responding_in_a_transaction_does_not_block_the_rollback(
    through: Database, silent: Gate
) -> None:
    async def fail() -> None:
        async with through.transaction() as connection:
            await connection.execute(QUERY)
            silent.fall_silent()
            raise LookupError

    started = monotonic()
    with pytest.raises((LookupError, DatabaseAwayError)):
        await fail()
    assert monotonic() - started < SOON


async def test_a_cancelled_call_to_a_silent_server_ends_immediately(
    through: Database, silent: Gate
) -> None:
    patient = through.patient(timedelta(minutes=5))
    await select_one(patient)
    silent.fall_silent()
    started = monotonic()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await select_one(patient)

    assert monotonic() - started < SOON


async def test_disposing_the_engine_does_not_wait_for_a_silent_server(
    database_url: str, tmp_path: Path
) -> None:
    with gate(database_url) as between:
        async with open_database(Settings(database_url=between.url, folder=tmp_path)) as opened:
            await select_one(opened)
            between.fall_silent()
            started = monotonic()
        assert monotonic() - started < SOON


async def test_a_statement_in_one_round_trip_has_a_deadline(
    through: Database, silent: Gate
) -> None:
    await through.fetch("SELECT 1", {})
    silent.fall_silent()
    started = monotonic()

    with pytest.raises(DatabaseAwayError):
        await through.fetch("SELECT 1", {})

    assert monotonic() - started < SOON


async def test_calls_that_share_a_budget_end_together(through: Database, silent: Gate) -> None:
    patient = through.patient(timedelta(minutes=5))
    await select_one(patient)
    silent.fall_silent()
    started = monotonic()

    with deadlines.budget(SHORT):
        for _ in range(3):
            with pytest.raises(DatabaseAwayError):
                await select_one(patient)

    assert monotonic() - started < SOON


async def test_an_abandoned_statement_does_not_keep_its_locks(
    database: Database, database_url: str
) -> None:
    slow = "SELECT pg_sleep(600) FROM (SELECT FROM tenantcron.limits FOR UPDATE) AS l"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0), database.transaction() as connection:
            await connection.execute(text(slow))

    def is_gone() -> bool:
        statement = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(600)%%'"
        return not query(database_url, f"{statement} AND pid <> pg_backend_pid()")

    await asyncio.to_thread(until, is_gone)


async def test_the_server_ends_a_slow_statement_and_the_connection_stays_usable(
    database: Database,
) -> None:
    pid = text("SELECT pg_backend_pid()")
    async with database.transaction() as connection:
        before = await connection.scalar(pid)

    async def sleep() -> None:
        async with database.patient(SHORT).transaction() as connection:
            await connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(OperationalError, match="statement timeout"):
        await sleep()

    async with database.transaction() as connection:
        assert await connection.scalar(pid) == before


async def test_listening_on_a_silent_server_ends(
    silent: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.store.connection.listening._SILENCE", 0.1)
    monkeypatch.setattr("tenantcron.store.connection.listening._PATIENCE", 0.2)

    async def listen() -> None:
        async with listening(target_of(silent.url), "x") as heard:
            silent.fall_silent()
            async for _ in heard:
                pass

    started = monotonic()
    with pytest.raises(ListeningError):
        await listen()
    assert monotonic() - started < SOON


async def test_a_handler_that_timed_out_does_not_wait_for_a_silent_server(silent: Gate) -> None:
    transactions = HandlerTransactions(target_of(silent.url))
    who = Attribution(Actor("system:x", ActorType.WORKER, "test"))

    async def work() -> None:
        async with transactions.begin(HandlerScope(TenantId("acme"), "public", who)) as connection:
            silent.fall_silent()
            await connection.execute(QUERY)

    started = monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await work()
    await transactions.close()
    assert monotonic() - started < SOON


async def test_a_silent_first_host_delays_only_the_first_connection(
    silent: Gate, database_url: str, tmp_path: Path
) -> None:
    silent.fall_silent()
    with gate(database_url) as answering:
        hosts = f"127.0.0.1:{silent.port},127.0.0.1:{answering.port}"
        url = f"postgresql://postgres@{hosts}/{silent.database}?gssencmode=disable"
        settings = Settings(database_url=f"{url}&connect_timeout=2", folder=tmp_path)
        async with open_database(settings) as opened:
            before = silent.opened
            for _ in range(3):
                await opened.engine.dispose()
                await select_one(opened)

            assert silent.opened == before
            assert answering.opened == 4
