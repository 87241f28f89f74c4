"""A server with JIT compilation, like most servers: our plans are not compiled.

The tests only check counts, not times: compiling a claim takes two seconds, but so can anything
else on a busy machine.
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
    # SQLAlchemy queries the version when it connects, which is compiled quickly.
    " AND query LIKE '%tenantcron.%'"
)
# As an administrator would set them for reports.
SETTINGS = {"jit_above_cost": "0", "statement_timeout": "1s"}


@pytest.fixture
async def scheduling(jit_server: Server, tmp_path: Path) -> AsyncIterator[Scheduling]:
    """A database whose sessions compile all plans and have a timeout of one second."""
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
    """Return the statements in this database that were compiled."""
    return [row["query"] for row in query(str(scheduling.settings.database_url), COMPILED)]


def test_the_server_compiles_plans(jit_server: Server) -> None:
    assert jit_server.execute("SELECT pg_jit_available()") == [(True,)]


async def test_a_thousand_due_executions_run_without_compiling_a_plan(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(DUE)
    await scheduling.limit(DUE, DUE)
    scheduling.clock.advance(hours=1)

    fired = await scheduling.fire()
    started = await scheduling.claim_all()
    succeeded = [Attempt(claimed, AttemptOutcome.SUCCEEDED) for claimed in started]
    await finish_batch(scheduling.replica(), succeeded)

    assert fired == len(started) == DUE
    assert await scheduling.count(state="SUCCEEDED") == DUE
    assert compiled(scheduling) == []


async def test_a_manual_statement_would_be_compiled(scheduling: Scheduling) -> None:
    query(str(scheduling.settings.database_url), "SELECT count(*) FROM tenantcron.execution")

    assert compiled(scheduling) != []
