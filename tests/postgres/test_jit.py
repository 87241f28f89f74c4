"""A server that compiles plans, as most servers do: none of ours is compiled.

Only counts are looked at. Compiling a claim takes two seconds, but so can anything else on a busy
machine.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from support.database import TEMPLATE, Server
from support.processes import query
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.connection.engine import open_database

DUE = 1000
COMPILED = (
    "SELECT query FROM public.pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid"
    " WHERE d.datname = current_database() AND jit_functions > 0"
    # SQLAlchemy asks for the version when it connects; that is compiled in no time.
    " AND query LIKE '%tenantcron.%'"
)
# As an administrator sets them who has tuned the server for reports.
SETTINGS = {"jit_above_cost": "0", "statement_timeout": "1s"}


@pytest.fixture
async def scheduling(jit_server: Server, tmp_path: Path) -> AsyncIterator[Scheduling]:
    """A database whose sessions compile whatever they can, and wait a second at most."""
    with jit_server.database(TEMPLATE) as url:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
            for name, value in SETTINGS.items():
                statement = SQL("ALTER DATABASE {} SET {} TO {}")
                of = Identifier(session.info.dbname)
                session.execute(statement.format(of, Identifier(name), value))
        settings = Settings(database_url=url, folder=tmp_path)
        async with open_database(settings) as database:
            scheduling = Scheduling(database, settings)
            await scheduling.prepare()
            yield scheduling


def compiled(scheduling: Scheduling) -> list[str]:
    """Return the statements in this database that were compiled so far."""
    return [row["query"] for row in query(str(scheduling.settings.database_url), COMPILED)]


def test_the_server_compiles_plans(jit_server: Server) -> None:
    assert jit_server.execute("SELECT pg_jit_available()") == [(True,)]


async def test_a_thousand_due_at_once_start_and_end_without_compiling_anything(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(DUE)
    await scheduling.limit(DUE, DUE)
    scheduling.clock.go_on(hours=1)

    fired = await scheduling.fire()
    started = await scheduling.claim_all()
    succeeded = [Attempt(claimed, AttemptOutcome.SUCCEEDED) for claimed in started]
    await finish_batch(scheduling.replica(), succeeded)

    assert fired == len(started) == DUE
    assert await scheduling.count(state="SUCCEEDED") == DUE
    assert compiled(scheduling) == []


async def test_the_same_statements_by_hand_would_be_compiled(scheduling: Scheduling) -> None:
    query(str(scheduling.settings.database_url), "SELECT count(*) FROM tenantcron.execution")

    assert compiled(scheduling) != []
