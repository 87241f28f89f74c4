"""Connections to a standby do not stay in the pool."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from support.gate import Gate, gate
from support.standby import Pair, replicated

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.store.connection.database_urls import target_of
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.errors import DatabaseAwayError, ReadOnlyError
from tenantcron.store.connection.handler_transactions import HandlerScope, HandlerTransactions

WHO = Attribution(Actor("system:x", ActorType.WORKER, "test"))
IN_RECOVERY = text("SELECT pg_is_in_recovery()")


@pytest.fixture(scope="module")
def pair(run_folder: Path) -> Iterator[Pair]:
    with replicated(run_folder) as made:
        yield made


@pytest.fixture
def proxy(pair: Pair) -> Iterator[Gate]:
    """A proxy that connects to the primary at first."""
    with gate(pair.primary.url) as between:
        yield between


@pytest.fixture
async def proxied(proxy: Gate, tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(Settings(database_url=proxy.url, folder=tmp_path)) as opened:
        yield opened


async def write(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(text("UPDATE tenantcron.limits SET operator = 100"))


async def test_a_pool_recovers_when_the_proxy_returns_from_the_standby_to_the_primary(
    proxied: Database, proxy: Gate, pair: Pair
) -> None:
    await write(proxied)
    proxy.lead_to(pair.standby.upstream)
    for _ in range(3):
        with pytest.raises(DatabaseAwayError):
            await write(proxied)

    # The proxy closes no connection: those in the pool would still be connected to the standby.
    proxy.upstream = pair.primary.upstream
    await write(proxied)


async def test_a_standby_is_reported_as_one(proxied: Database, proxy: Gate, pair: Pair) -> None:
    proxy.lead_to(pair.standby.upstream)

    with pytest.raises(ReadOnlyError, match="standby or read-only"):
        await write(proxied)


async def test_a_statement_on_a_standby_fails_and_the_next_one_works(
    proxied: Database, proxy: Gate, pair: Pair
) -> None:
    proxy.lead_to(pair.standby.upstream)
    with pytest.raises(ReadOnlyError):
        await proxied.fetch("SELECT 1", {})

    proxy.upstream = pair.primary.upstream
    assert await proxied.fetch("SELECT 1", {}) == [(1,)]


async def test_a_read_only_transaction_counts_as_a_standby(
    proxied: Database,
) -> None:
    async def write_read_only() -> None:
        async with proxied.transaction() as connection:
            await connection.execute(text("SET TRANSACTION READ ONLY"))
            await connection.execute(text("UPDATE tenantcron.limits SET operator = 100"))

    with pytest.raises(ReadOnlyError):
        await write_read_only()
    await write(proxied)


async def test_connections_of_handlers_to_a_standby_are_closed_too(proxy: Gate, pair: Pair) -> None:
    transactions = HandlerTransactions(target_of(proxy.url))

    async def is_standby() -> object:
        async with transactions.begin(HandlerScope(TenantId("acme"), "public", WHO)) as connection:
            return await connection.scalar(IN_RECOVERY)

    proxy.lead_to(pair.standby.upstream)
    with pytest.raises(Exception, match="during recovery"):
        await is_standby()
    proxy.upstream = pair.primary.upstream
    assert await is_standby() is False
    await transactions.close()


async def test_a_url_with_several_hosts_finds_the_primary(pair: Pair, tmp_path: Path) -> None:
    async with open_database(Settings(database_url=pair.url, folder=tmp_path)) as opened:
        await write(opened)
        async with opened.transaction() as connection:
            assert await connection.scalar(IN_RECOVERY) is False
