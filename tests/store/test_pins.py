"""Settings of server, database and role do not affect our statements.

They are set for a role of the test, as a database administrator would set them.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import text
from support.database import TEMPLATE, Server
from support.lifecycle import live

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, open_database

HOSTILE: dict[str, dict[str, str]] = {
    "formats": {
        "datestyle": "SQL, DMY",
        "intervalstyle": "iso_8601",
        "timezone": "Australia/Lord_Howe",
        "extra_float_digits": "-15",
        "bytea_output": "escape",
        "client_encoding": "LATIN1",
    },
    "parsing": {
        "array_nulls": "off",
        "standard_conforming_strings": "off",
        "search_path": "planted, public, pg_catalog",
    },
    "transactions": {
        "default_transaction_isolation": "serializable",
        "default_transaction_read_only": "on",
        "default_transaction_deferrable": "on",
        "row_security": "off",
    },
    "timeouts": {
        "statement_timeout": "1s",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "1s",
        "transaction_timeout": "1s",
    },
    "planner": {
        "jit": "on",
        "jit_above_cost": "0",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_indexscan": "off",
        "enable_indexonlyscan": "off",
        "enable_tidscan": "off",
        "enable_nestloop": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_sort": "off",
        "enable_hashagg": "off",
        "enable_material": "off",
        "enable_memoize": "off",
        "enable_partition_pruning": "off",
    },
}
# Settings that describe the machine, or that our statements do not depend on.
NOT_PINNED = {
    "bytea_output",
    "client_encoding",
    "jit_above_cost",
    "default_transaction_deferrable",
    "enable_mergejoin",
    "enable_hashagg",
    "enable_material",
    "enable_memoize",
    "row_security",
}
# Settings that `BEGIN` pins under another name.
RENAMED = {
    "default_transaction_isolation": "transaction_isolation",
    "default_transaction_read_only": "transaction_read_only",
}
# There is no built-in operator `=` for two varchars, so this one is a better match.
PLANTED = """
CREATE SCHEMA planted;
CREATE FUNCTION planted.hijack(varchar, varchar) RETURNS boolean LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE OPERATOR planted.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = planted.hijack);
CREATE FUNCTION planted.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
"""


def set_for_role(server: Server, role: str, settings: dict[str, str]) -> None:
    """Set the settings that this server supports, for all future sessions of the role."""
    names = {str(row[0]) for row in server.execute("SELECT lower(name) FROM pg_settings")}
    with psycopg.connect(server.url("postgres"), autocommit=True) as session:
        for name in names & settings.keys():
            # Two settings are lists.
            values = SQL(", ").join([Literal(value) for value in settings[name].split(", ")])
            statement = SQL("ALTER ROLE {} SET {} TO {}")
            session.execute(statement.format(Identifier(role), Identifier(name), values))


@dataclass(frozen=True, slots=True)
class HostileDatabase:
    """A database, with the URL of a role with hostile settings and a plain one."""

    url: str
    plain_url: str


@contextmanager
def hostile_database(
    server: Server, template: str, settings: dict[str, str]
) -> Iterator[HostileDatabase]:
    """Yield a database with a role that has hostile settings."""
    role = f"hostile_{uuid4().hex}"
    server.execute("CREATE ROLE {} LOGIN SUPERUSER", role)
    try:
        with server.database(template) as url:
            set_for_role(server, role, settings)
            yield HostileDatabase(urlunsplit(urlsplit(url)._replace(netloc=f"{role}@")), url)
    finally:
        server.execute("DROP ROLE {}", role)


@pytest.fixture
async def database(server: Server, tmp_path: Path) -> AsyncIterator[Database]:
    """A migrated database with all hostile settings."""
    everything = {name: value for group in HOSTILE.values() for name, value in group.items()}
    with hostile_database(server, TEMPLATE, everything) as hostile:
        settings = Settings(database_url=hostile.url, folder=tmp_path)
        async with open_database(settings) as opened:
            yield opened


@pytest.mark.parametrize("group", HOSTILE)
def test_everything_works_with_any_settings_of_the_role(
    server: Server, tmp_path: Path, group: str
) -> None:
    with hostile_database(server, "template1", HOSTILE[group]) as hostile:
        with psycopg.connect(hostile.plain_url) as session:
            session.execute(PLANTED)
        live(tmp_path, hostile.url, hostile.plain_url)


@pytest.mark.parametrize("by_key", [False, True])
async def test_a_transaction_has_the_same_settings_whatever_those_of_the_role(
    server: Server, database: Database, tmp_path: Path, by_key: bool
) -> None:
    pinned = {name for group in HOSTILE.values() for name in group} - NOT_PINNED
    with server.database(TEMPLATE) as url:
        settings = Settings(database_url=url, folder=tmp_path)
        async with open_database(settings) as plain:
            expected = await shown(plain, pinned, by_key=by_key)

    assert await shown(database, pinned, by_key=by_key) == expected
    assert expected["jit"] == "off"
    assert expected["statement_timeout"] == "0"


async def shown(database: Database, names: set[str], *, by_key: bool) -> dict[str, str | None]:
    """Return the settings of a transaction; None: the server does not have it."""
    async with database.transaction(by_key=by_key) as connection:
        return {
            name: await connection.scalar(
                text("SELECT current_setting(:name, true)"), {"name": RENAMED.get(name, name)}
            )
            for name in sorted(names)
        }


async def test_statements_have_no_timeout(database: Database) -> None:
    async with database.transaction() as connection:
        assert await connection.scalar(text("SELECT pg_sleep(1.2) IS NOT NULL"))


async def test_a_statement_in_one_round_trip_has_the_settings_of_any_transaction(
    database: Database,
) -> None:
    names = ("timezone", "search_path", "jit", "transaction_isolation", "transaction_read_only")
    columns = ", ".join(f"current_setting('{name}')" for name in names)

    found = await database.fetch(f"SELECT {columns}, %(given)s", {"given": "it's \\ 100 %"})

    assert found == [("UTC", "pg_catalog", "off", "read committed", "off", "it's \\ 100 %")]
    async with database.engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, psycopg.AsyncConnection)
        assert driver.info.transaction_status is TransactionStatus.IDLE
