"""RETRYING, which the previous release stores as FAILED: both wait for their next attempt."""

from uuid import uuid4

import pytest
from support.scheduling import Scheduling

from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionFilter
from tenantcron.store.rows.executions import State

REPLACES = "cancel_running"
BOTH = pytest.mark.parametrize("stored", ["RETRYING", "FAILED"])


@BOTH
@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_running", "allow"])
async def test_the_next_attempt_starts_with_any_overlap_policy(
    scheduling: Scheduling, stored: str, overlap: str
) -> None:
    await scheduling.waiting(1, state=stored, attempt=1, overlap=overlap)

    (started,) = await scheduling.claim_all()

    assert started.attempt == 2


@BOTH
async def test_the_next_occurrence_is_skipped_while_one_is_retrying(
    scheduling: Scheduling, stored: str
) -> None:
    schedule = uuid4()
    later = scheduling.clock.now.replace(year=2027)
    await scheduling.waiting(1, schedule_id=schedule, state=stored, attempt=1, not_before=later)
    await scheduling.waiting(1, schedule_id=schedule)

    assert await scheduling.claim_all() == []

    assert await scheduling.count(state=stored) == 1
    assert await scheduling.count(state="SKIPPED") == 1


@BOTH
async def test_the_next_occurrence_replaces_a_retrying_execution(
    scheduling: Scheduling, stored: str
) -> None:
    schedule = uuid4()
    later = scheduling.clock.now.replace(year=2027)
    await scheduling.waiting(
        1, schedule_id=schedule, overlap=REPLACES, state=stored, attempt=1, not_before=later
    )
    await scheduling.waiting(1, schedule_id=schedule, overlap=REPLACES)

    assert len(await scheduling.claim_all()) == 1

    assert await scheduling.count(state="CANCELLED") == 1


@BOTH
async def test_a_retrying_execution_is_listed_as_retrying(
    scheduling: Scheduling, stored: str
) -> None:
    await scheduling.waiting(1, state=stored, attempt=1)
    await scheduling.waiting(1)
    async with scheduling.database.transaction() as connection:
        wanted = ExecutionFilter(states=(State.RETRYING,))
        (row,) = await execution_history.newest(connection, wanted, 10)
        queue = await execution_history.queue(connection, scheduling.clock.now)
    (metered,) = await scheduling.query("SELECT unfinished FROM tenantcron.metering")

    assert row.state is State.RETRYING
    assert queue.number == metered["unfinished"] == 2


@BOTH
async def test_a_retrying_execution_ends_with_its_tenant(
    scheduling: Scheduling, stored: str
) -> None:
    await scheduling.waiting(1, tenant="closed", state=stored, attempt=1)
    await scheduling.query("UPDATE tenantcron.tenant SET status = 'suspended' RETURNING id")

    assert await scheduling.claim_all() == []

    assert await scheduling.count(state="CANCELLED") == 1
