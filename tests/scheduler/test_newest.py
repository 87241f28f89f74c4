"""Listing executions reads about as many rows as it shows, for any length of the history."""

import re

import pytest
from sqlalchemy import text
from support.explaining import explained
from support.history import add_history
from support.scheduling import Scheduling

from tenantcron.core.names import TenantId
from tenantcron.store.rows.execution_history import ExecutionFilter, newest, page
from tenantcron.store.rows.executions import State

READ = (
    "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) AS rows"
    " FROM pg_stat_user_tables WHERE relname LIKE 'execution_past%'"
)


@pytest.mark.parametrize(
    "wanted",
    [
        ExecutionFilter(),
        ExecutionFilter(states=(State.SUCCEEDED, State.SKIPPED)),
        ExecutionFilter(tenant=TenantId("t7")),
        ExecutionFilter(tenant=TenantId("t7"), schedule="work"),
    ],
    ids=["of all", "by states", "of a tenant", "of a schedule"],
)
async def test_the_newest_are_found_without_reading_history(
    scheduling: Scheduling, wanted: ExecutionFilter
) -> None:
    await add_history(scheduling, 20_000)
    before = await rows_read(scheduling)

    async with scheduling.database.transaction() as connection:
        # Otherwise the statistics may arrive a second later.
        await connection.execute(text("SELECT pg_stat_force_next_flush()"))
        found = await newest(connection, wanted, 20)

    assert len(found) == 20
    assert await rows_read(scheduling) - before < 1000


async def rows_read(scheduling: Scheduling) -> int:
    (row,) = await scheduling.query(READ)
    return int(str(row["rows"]))


async def test_dead_executions_of_a_tenant_without_any_are_found_without_reading_history(
    scheduling: Scheduling,
) -> None:
    await add_history(scheduling, 20_000)
    # Others have many.
    await scheduling.execute(
        "UPDATE tenantcron.execution SET state = 'DEAD' WHERE tenant_id IN ('t8', 't9')"
    )
    await scheduling.execute("ANALYZE tenantcron.execution")

    plan = await explained(
        scheduling.database,
        lambda connection: page(
            connection,
            ExecutionFilter(tenant=TenantId("t7"), states=(State.DEAD,)),
            before=None,
            limit=20,
        ),
    )

    used = set(re.findall(r'"Index Name": "execution_past_[0-9_]+_(\w+)"', plan))
    # The partial index has the same columns as the one of the tenant's timeline.
    assert used == {"tenant_id_scheduled_for_id_idx1"}
