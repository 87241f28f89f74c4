"""The migration to the state RETRYING, with executions that are live meanwhile."""

from pathlib import Path
from types import ModuleType

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.migrations.history import history
from tenantcron.store.connection.engine import Database


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    return scheduling


@pytest.fixture(scope="module")
def migration() -> ModuleType:
    return history("control").scripts.get_revision("0014_retrying").module


def operations(connection: Connection) -> Operations:
    return Operations(MigrationContext.configure(connection))


async def states(scheduling: Scheduling) -> list[object]:
    rows = await scheduling.query("SELECT state FROM tenantcron.execution ORDER BY schedule_name")
    return [row["state"] for row in rows]


async def test_rows_of_the_release_before_stay_and_rows_of_this_one_get_its_name_when_it_goes(
    scheduling: Scheduling, migration: ModuleType
) -> None:
    await scheduling.waiting(1, schedule_name="a", state="PENDING")
    await scheduling.waiting(1, schedule_name="b", state="RETRYING", attempt=1)
    await scheduling.waiting(1, schedule_name="c", state="FAILED", attempt=1)
    await scheduling.waiting(1, schedule_name="d", state="DEAD", attempt=1)
    # A later migration has added columns, which a replaced view must keep.
    await scheduling.execute("DROP VIEW tenantcron.metering")
    async with scheduling.database.transaction() as connection:
        await connection.run_sync(lambda sync: migration.downgrade(operations(sync), "tenantcron"))
    down = await states(scheduling)
    async with scheduling.database.transaction() as connection:
        await connection.run_sync(lambda sync: migration.upgrade(operations(sync), "tenantcron"))

    assert down == ["PENDING", "FAILED", "FAILED", "DEAD"]
    assert await states(scheduling) == down


async def test_the_database_refuses_a_state_that_no_partition_has(scheduling: Scheduling) -> None:
    await scheduling.waiting(1)
    with pytest.raises(IntegrityError, match="no partition"):
        async with scheduling.database.transaction() as connection:
            await connection.execute(text("UPDATE tenantcron.execution SET state = 'ASLEEP'"))
