"""The quota of pending tasks: bounds spare the count, and never make transactions wait."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from support.scheduling import Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.core.names import TenantId
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.store.steps import submit
from tenantcron.store.steps.submit import TasksRejectedError

__all__ = ["scheduling"]

ACME = TenantId("acme")
LATER = timedelta(hours=1)


@pytest.fixture(autouse=True)
async def acme(scheduling: Scheduling) -> None:
    await scheduling.tenant("acme")
    await scheduling.execute("UPDATE tenantcron.limits SET quotas = '{\"pending_tasks\": 5}'")
    await scheduling.limit(100)


async def add(connection: AsyncConnection, scheduling: Scheduling, number: int) -> None:
    tasks = batch_json([TaskRequest("work", {"n": 1})] * number)
    await submit.submit(connection, ACME, tasks, scheduling.clock.now)


async def parts(scheduling: Scheduling) -> list[tuple[int, int]]:
    """Return the bounds in parts: tasks, and bytes."""
    rows = await scheduling.rows("tenant_pending", "part")
    return sorted((row["tasks"], row["bytes"]) for row in rows)


async def test_started_tasks_make_room(scheduling: Scheduling) -> None:
    for _ in range(4):
        await scheduling.submit(*[TaskRequest("work", delay=LATER)] * 2, TaskRequest("work"))
        with pytest.raises(TasksRejectedError, match="5 pending tasks"):
            await scheduling.submit(*[TaskRequest("work")] * 3)
        scheduling.clock.now += LATER
        await scheduling.fire()
        assert len((await scheduling.claim()).started) == 3


async def test_a_count_corrects_the_bound(scheduling: Scheduling) -> None:
    await scheduling.submit(*[TaskRequest("work", {"n": 1})] * 4)
    assert await parts(scheduling) == [(4, 4 * len('{"n": 1}'))]
    assert len((await scheduling.claim()).started) == 4

    await scheduling.submit(TaskRequest("work"), TaskRequest("work"))

    assert [tasks for tasks, _ in await parts(scheduling)] == [2]


async def test_open_transactions_do_not_wait_for_each_other(scheduling: Scheduling) -> None:
    database = scheduling.database
    for _ in range(2):
        async with database.transaction() as first, database.transaction() as second:
            await first.execute(text("SET LOCAL lock_timeout TO '1ms'"))
            await second.execute(text("SET LOCAL lock_timeout TO '1ms'"))
            await add(first, scheduling, 1)
            await add(second, scheduling, 1)
            await add(first, scheduling, 1)
        assert len(await parts(scheduling)) == 2
        assert sum(tasks for tasks, _ in await parts(scheduling)) == 3
        await scheduling.claim()
        await scheduling.execute("UPDATE tenantcron.tenant_pending SET tasks = 0")


async def test_a_transaction_adds_a_part_while_another_has_locked_the_one_that_it_added(
    scheduling: Scheduling,
) -> None:
    async with scheduling.database.engine.connect() as first:
        await add(first, scheduling, 1)
        await first.commit()
        async with scheduling.database.transaction() as second:
            await add(second, scheduling, 1)
            await first.execute(text("SET LOCAL lock_timeout TO '1ms'"))
            await add(first, scheduling, 1)
            await first.commit()

    assert sorted(tasks for tasks, _ in await parts(scheduling)) == [1, 2]


async def test_the_quota_counts_the_tasks_of_all_parts(scheduling: Scheduling) -> None:
    database = scheduling.database
    async with database.transaction() as first, database.transaction() as second:
        await add(first, scheduling, 2)
        await add(second, scheduling, 2)

    with pytest.raises(TasksRejectedError):
        await scheduling.submit(*[TaskRequest("work")] * 2)
    await scheduling.submit()


async def test_a_transaction_that_is_rolled_back_does_not_count(scheduling: Scheduling) -> None:
    async with scheduling.database.transaction() as connection:
        await add(connection, scheduling, 5)
        await connection.rollback()

    await scheduling.submit(*[TaskRequest("work")] * 5)


async def test_a_transaction_with_another_isolation_counts_itself(scheduling: Scheduling) -> None:
    await scheduling.submit()
    engine = scheduling.database.engine
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="SERIALIZABLE")
        async with connection.begin():
            await connection.execute(text("SELECT 1"))
            await scheduling.submit()
            await add(connection, scheduling, 3)
        with pytest.raises(TasksRejectedError):
            async with connection.begin():
                await add(connection, scheduling, 1)
