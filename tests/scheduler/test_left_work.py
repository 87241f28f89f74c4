"""Work at targets that continues although its execution has ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest
from support.scheduling import Row, Scheduling

from tenantcron.core.targets import Target
from tenantcron.scheduler.replica.left_work_loop import LeftWorkLoop
from tenantcron.store.rows import executions, left_work
from tenantcron.store.rows.left_work import EndedExecution
from tenantcron.targets.contract import Delivered, TargetCall


@dataclass(slots=True)
class Stopper:
    """A runner that records what it stops, and refuses some."""

    refused: set[UUID] = field(default_factory=set)
    asked: list[UUID] = field(default_factory=list)
    meanwhile: Callable[[UUID], None] = lambda _: None
    silent: bool = False

    async def run(self, call: TargetCall) -> Delivered:
        raise NotImplementedError

    async def close(self) -> None:
        """Do nothing."""

    async def stop_left(self, execution: UUID, target: Target) -> bool:
        assert target.kind == "temporal"
        self.asked.append(execution)
        if self.silent:
            await asyncio.Event().wait()
        return execution not in self.refused


async def ended(scheduling: Scheduling, count: int, **columns: object) -> list[UUID]:
    """Add executions that have failed, oldest first; return their ids."""
    await scheduling.schedule(
        "report", target={"temporal": {"workflow": "Report", "task_queue": "billing"}}
    )
    (cursor,) = await scheduling.query(
        "SELECT definition_id FROM tenantcron.schedule_cursor WHERE schedule_name = 'report'"
    )
    await scheduling.waiting(
        count,
        **{
            "state": "DEAD",
            "attempt": 1,
            "requires": "temporal",
            "definition_id": cursor["definition_id"],
            "finished_at": scheduling.clock.now,
            **columns,
        },
    )
    rows = await scheduling.rows()
    return [row["id"] for row in rows if row["state"] == "DEAD"]


async def retried(scheduling: Scheduling) -> Row:
    """Retry the only execution, as an operator does."""
    (row,) = await scheduling.rows()
    key = EndedExecution(row["id"], row["scheduled_for"], row["definition_id"], row["finished_at"])
    async with scheduling.database.transaction() as connection:
        await executions.retry(connection, [key], more_attempts=1, at=scheduling.clock.now)
    (row,) = await scheduling.rows()
    return row


def loop_of(scheduling: Scheduling, stopper: Stopper) -> LeftWorkLoop:
    return LeftWorkLoop(scheduling.replica(), {"temporal": stopper})


async def test_a_refused_request_does_not_hold_up_the_others_and_is_repeated(
    scheduling: Scheduling,
) -> None:
    first, *others = await ended(scheduling, 5)
    stopper = Stopper(refused={first})
    loop = loop_of(scheduling, stopper)
    assert 0 < await loop.step() <= 60
    assert set(stopper.asked) == {first, *others}
    scheduling.clock.advance(minutes=2)
    stopper.asked.clear()
    await loop.step()
    assert stopper.asked == [first]
    stopper.refused.clear()
    scheduling.clock.advance(hours=1)
    await loop.step()
    scheduling.clock.advance(hours=1)
    stopper.asked.clear()
    assert await loop.step() >= 3600
    assert stopper.asked == []


async def test_a_refused_request_is_given_up_after_a_day(scheduling: Scheduling) -> None:
    (only,) = await ended(scheduling, 1)
    stopper = Stopper(refused={only})
    loop = loop_of(scheduling, stopper)
    await loop.step()
    scheduling.clock.advance(hours=25)
    stopper.asked.clear()
    await loop.step()
    assert stopper.asked == []


async def test_many_executions_that_ended_together_are_stopped(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_work, "MOST_AT_ONCE", 3)
    all_ended = await ended(scheduling, 8)
    stopper = Stopper()
    loop = loop_of(scheduling, stopper)
    for _ in range(3):
        await loop.step()
    assert sorted(stopper.asked) == sorted(all_ended)


async def test_no_transaction_is_open_during_a_request_and_a_retry_waits_for_its_end(
    scheduling: Scheduling,
) -> None:
    await ended(scheduling, 1)
    stopper = Stopper(silent=True)
    stopping = asyncio.create_task(loop_of(scheduling, stopper).step())
    while not stopper.asked:
        await asyncio.sleep(0)
    row = await retried(scheduling)
    assert row["state"] == "PENDING"
    assert timedelta(0) < row["not_before"] - scheduling.clock.now <= timedelta(seconds=30)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


async def test_a_retry_after_the_request_does_not_wait(scheduling: Scheduling) -> None:
    await ended(scheduling, 1)
    await loop_of(scheduling, Stopper()).step()
    row = await retried(scheduling)
    assert (row["state"], row["not_before"]) == ("PENDING", scheduling.clock.now)


async def test_an_execution_that_is_being_stopped_elsewhere_is_looked_at_again(
    scheduling: Scheduling,
) -> None:
    (only,) = await ended(scheduling, 1)
    until = scheduling.clock.now + timedelta(seconds=10)
    await scheduling.execute("UPDATE tenantcron.execution SET stopping_until = :until", until=until)
    stopper = Stopper()
    loop = loop_of(scheduling, stopper)
    await loop.step()
    assert stopper.asked == []
    scheduling.clock.advance(minutes=1)
    await loop.step()
    assert stopper.asked == [only]
