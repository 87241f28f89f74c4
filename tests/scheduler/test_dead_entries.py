"""Executions that have just ended cost the next step nothing, even before a vacuum.

These tests have a separate server: while any transaction on a server is open, rows that were
deleted since its start cannot be marked dead.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.migrations.runner import migrate_control
from tenantcron.scheduler.steps import fire
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.connection.engine import open_database
from tenantcron.store.steps.claiming import CLAIM_CONSTANTS
from tenantcron.store.steps.statements import statement


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Scheduling]:
    """An empty database without other sessions and without autovacuum."""
    settings = Settings(folder=tmp_path)
    async with open_database(settings) as database:
        # Autoanalyze is disabled as well, because it opens a transaction.
        with psycopg.connect(
            make_conninfo(**database.target.parameters), autocommit=True
        ) as session:
            session.execute("ALTER SYSTEM SET autovacuum = off")
            session.execute("SELECT pg_reload_conf()")
        await migrate_control(database)
        alone = Scheduling(database, settings)
        await alone.prepare()
        yield alone


_ENTRIES = "SELECT pg_stat_get_xact_tuples_returned(CAST(%(index)s AS regclass))"


async def entries(alone: Scheduling, name: str, index: str, /, **given: object) -> int:
    """Run a statement, roll it back, and return how many index entries it read."""
    of = {"index": f"tenantcron.{index}"}
    async with alone.database.transaction(by_key=True) as connection:
        before = (await connection.exec_driver_sql(_ENTRIES, of)).scalar_one()
        await connection.exec_driver_sql(statement(name), given)
        after = (await connection.exec_driver_sql(_ENTRIES, of)).scalar_one()
        await connection.rollback()
    return int(after - before)


@pytest.mark.parametrize("index", ["execution_active_idx", "execution_runnable_idx"])
async def test_a_claim_does_not_read_entries_of_ended_executions_before_a_vacuum(
    alone: Scheduling, index: str
) -> None:
    await alone.limit(1000)
    await alone.waiting(1000, start_deadline=None)
    given: dict[str, object] = {
        "at": alone.clock.now, "after": "", "worker_id": "one", "batch": 20, "pairs": 502,
        "lease": timedelta(seconds=60), "requires": ["saga:work"], **CLAIM_CONSTANTS,
    }  # fmt: skip
    replica, read = alone.replica(), []
    for _ in range(30):
        started = (await claim_batch(replica, 20)).started
        read.append(await entries(alone, "claim", index, **given))
        await finish_batch(
            replica, [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
        )

    assert max(read) <= 5 * read[0], read


async def test_firing_does_not_read_entries_of_fired_cursors_before_a_vacuum(
    alone: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire, "CURSORS_A_BATCH", 20)
    await alone.schedules(600, "0 * * * *")
    alone.clock.advance(hours=1)
    given: dict[str, object] = {"at": alone.clock.now, "batch": 20}
    read = []
    for _ in range(25):
        assert (await fire.fire_batch(alone.replica())).executions == 20
        read.append(await entries(alone, "due", "schedule_cursor_due_idx", **given))

    assert max(read) <= 5 * read[0], read
