"""Tasks: fired exactly once, run with their own payload, cancelled, rescheduled and retried."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from support.fleet import DEPLOYER
from support.handlers import NoDatabase, handler
from support.scheduling import NOON, Scheduling

from tenantcron.core.targets import OtherTarget
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.scheduler.operate.task_operator import TaskOperator, UnknownTaskError
from tenantcron.scheduler.replica.housekeeping import forget_tasks, prepare_history
from tenantcron.scheduler.steps import fire_tasks
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.schedules.settings import RetryPolicy
from tenantcron.schedules.task_request import TaskRequest
from tenantcron.store.rows import tasks
from tenantcron.store.rows.tasks import TaskFilter, TaskPage, TaskRow, TaskState
from tenantcron.store.steps import glances
from tenantcron.targets.execution import Execution
from tenantcron.targets.python.registry import Handlers

LATER = timedelta(hours=1)


def operator(scheduling: Scheduling) -> TaskOperator:
    return TaskOperator(scheduling.database, scheduling.settings, DEPLOYER, scheduling.clock)


async def shown(scheduling: Scheduling, task_id: UUID) -> TaskRow:
    return await operator(scheduling).show(task_id)


async def test_a_task_is_fired_when_it_is_due(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(saga="invoice", delay=LATER)
    scheduling.clock.advance(minutes=59, seconds=59)
    assert await scheduling.fire() == 0

    scheduling.clock.advance(seconds=2)
    assert await scheduling.fire() == 1
    assert await scheduling.fire() == 0

    (row,) = await scheduling.rows()
    assert row["id"] == row["schedule_id"] == row["definition_id"] == task_id
    assert (row["state"], row["scheduled_for"], row["not_before"]) == (
        "PENDING",
        NOON + LATER,
        NOON + LATER,
    )
    assert (row["schedule_name"], row["saga_name"]) == ("task:invoice", "invoice")
    assert (row["created_at"], row["actor_source"]) == (scheduling.clock.now, "task")
    assert (await shown(scheduling, task_id)).fired_at == scheduling.clock.now


async def test_an_execution_at_once_equals_one_that_was_fired_later(scheduling: Scheduling) -> None:
    now = await scheduling.task(retry=RetryPolicy(7))
    later = await scheduling.task(retry=RetryPolicy(7), delay=LATER)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    rows = {row["id"]: dict(row) for row in await scheduling.rows()}
    times = {"scheduled_for", "not_before", "created_at"}
    own = {"id", "schedule_id", "definition_id"}
    first, second = (
        {key: value for key, value in rows[key_id].items() if key not in times | own}
        for key_id in (now, later)
    )
    assert first == second
    assert first["attempts_allowed"] == 7


async def test_a_task_starts_however_late_it_is(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=LATER)
    scheduling.clock.advance(days=3)
    await scheduling.fire()

    (claimed,) = (await scheduling.claim()).started

    assert (claimed.id, claimed.is_task) == (task_id, True)


async def test_a_task_from_before_the_retained_history_can_still_end(
    scheduling: Scheduling,
) -> None:
    task_id = await scheduling.task(delay=LATER)
    scheduling.clock.advance(days=800)
    await prepare_history(scheduling.replica())
    await scheduling.fire()
    (claimed,) = (await scheduling.claim()).started

    await scheduling.finish(claimed)

    found = await shown(scheduling, task_id)
    assert found.state is TaskState.SUCCEEDED
    assert found.execute_at == scheduling.clock.now - scheduling.settings.retention


@pytest.mark.parametrize("replicas", [2, 4])
async def test_concurrent_replicas_fire_each_task_once(
    scheduling: Scheduling, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_tasks, "TASKS_A_BATCH", 7)
    await scheduling.tenant()
    submitted = await scheduling.submit(*[TaskRequest("work", delay=LATER)] * 60)
    scheduling.clock.advance(hours=1)

    several = [scheduling.replica(f"r{number}") for number in range(replicas)]
    fired = await asyncio.gather(*(scheduling.fire(replica) for replica in several * 2))

    assert sum(fired) + await scheduling.fire() == 60
    rows = await scheduling.rows()
    assert Counter(row["id"] for row in rows) == Counter(task.id for task in submitted)


async def test_a_task_is_fired_ahead_and_starts_at_its_time(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=LATER)
    scheduling.clock.advance(minutes=59, seconds=56)

    assert (await fire_tasks.fire_due_tasks(scheduling.replica(), fire_tasks.AHEAD)).executions == 1
    assert (await scheduling.claim()).started == ()

    (row,) = await scheduling.rows()
    assert (row["scheduled_for"], row["not_before"]) == (NOON + LATER, NOON + LATER)
    assert row["created_at"] == scheduling.clock.now
    scheduling.clock.advance(seconds=4)
    assert [started.id for started in (await scheduling.claim()).started] == [task_id]


async def test_a_task_that_was_fired_ahead_can_be_cancelled(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=LATER)
    scheduling.clock.advance(minutes=59, seconds=56)
    await fire_tasks.fire_due_tasks(scheduling.replica(), fire_tasks.AHEAD)

    await operator(scheduling).cancel(task_id, None)

    found = await shown(scheduling, task_id)
    assert (found.state, found.execute_at) == (TaskState.CANCELLED, NOON + LATER)


async def test_a_replica_sleeps_until_it_fires_the_next_task_ahead(scheduling: Scheduling) -> None:
    await scheduling.task(delay=timedelta(minutes=10))

    now = scheduling.clock.now
    seconds = await glances.seconds_to_next_due(scheduling.database, now, fire_tasks.AHEAD)

    assert seconds == 595


async def test_the_next_task_decides_how_long_a_replica_sleeps(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    await scheduling.task(delay=timedelta(minutes=10))
    await scheduling.task(delay=timedelta(minutes=20))

    seconds = await glances.seconds_to_next_due(scheduling.database, scheduling.clock.now)

    assert seconds == 600


async def test_a_handler_gets_the_payload_of_the_task_as_it_was_submitted(
    scheduling: Scheduling,
) -> None:
    received: list[Execution] = []
    executor = Executor(Handlers.of([handler(received.append, "invoice")]), lambda _: NoDatabase())

    await scheduling.task(saga="invoice", payload={"text": "{{unknown}} {{tenant}}", "n": 1})
    await scheduling.task(saga="invoice", payload={"n": 2}, timeout=timedelta(minutes=7))

    rows = await scheduling.work(scheduling.replica(), executor)

    assert [row["state"] for row in rows] == ["SUCCEEDED"] * 2
    payloads = [execution.payload for execution in received]
    assert sorted(payloads, key=str) == [
        {"n": 1, "text": "{{unknown}} {{tenant}}"},
        {"n": 2},
    ]
    durations = {execution.deadline - scheduling.clock.now for execution in received}
    assert durations == {timedelta(minutes=5), timedelta(minutes=7)}


async def test_payloads_of_tasks_do_not_fill_the_cache_of_definitions(
    scheduling: Scheduling,
) -> None:
    task_id = await scheduling.task(payload={"n": 1})
    replica = scheduling.replica()

    async with scheduling.database.transaction() as connection:
        await replica.definitions.read(connection, [task_id])

    assert replica.definitions.cached([task_id]) is None


async def test_a_failed_task_is_retried_by_its_own_rules(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(retry=RetryPolicy(2, timedelta(0), timedelta(0)))
    for expected in ("RETRYING", "DEAD"):
        (claimed,) = (await scheduling.claim()).started
        await scheduling.finish(claimed, AttemptOutcome.FAILED, "no such customer")
        assert (await shown(scheduling, task_id)).state == expected

    retried = await operator(scheduling).retry(task_id)

    assert (retried.state, retried.attempt) == (TaskState.PENDING, 2)
    assert [row.attempt for row in await scheduling.attempts(task_id)] == [1, 2]


async def test_an_edited_definition_ends_the_task_and_no_other(scheduling: Scheduling) -> None:
    bad = await scheduling.task(timeout=timedelta(minutes=1), delay=LATER)
    good = await scheduling.task(delay=LATER)
    await scheduling.execute(
        'UPDATE tenantcron.task SET definition = \'{"timeout": 1, "retry": {"max_attempts":'
        ' "x"}}\' WHERE id = :id',
        id=bad,
    )
    scheduling.clock.advance(hours=1)

    assert await scheduling.fire() == 2
    started = (await scheduling.claim()).started
    async with scheduling.database.transaction() as connection:
        found = await scheduling.replica().definitions.read(connection, {bad, good})

    assert {claimed.id for claimed in started} == {bad, good}
    assert isinstance(found[bad], Exception)
    assert not isinstance(found[good], Exception)


async def test_tasks_of_a_suspended_tenant_end_with_the_reason(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=LATER)
    await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    await scheduling.claim()

    found = await shown(scheduling, task_id)
    assert (found.state, found.reason_code) == (TaskState.SKIPPED, "tenant_inactive")


async def test_a_task_that_no_replica_can_run_waits(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(saga=None, target=OtherTarget("celery", {"task": "x"}))
    scheduling.clock.advance(hours=9)

    claim = await scheduling.claim(scheduling.replica("one", "work"))

    assert (claim.started, claim.skipped) == ((), ())
    assert (await shown(scheduling, task_id)).state is TaskState.PENDING


async def test_cancelling_a_waiting_task_records_one_cancelled_execution(
    scheduling: Scheduling,
) -> None:
    # Its month has no partition yet.
    task_id = await scheduling.task(delay=timedelta(days=900))

    cancelled = await operator(scheduling).cancel(task_id, "not needed")

    assert (cancelled.state, cancelled.reason) == (TaskState.CANCELLED, "not needed")
    assert cancelled.execute_at == NOON + timedelta(days=900)
    (row,) = await scheduling.rows()
    assert (row["id"], row["scheduled_for"], row["state"]) == (task_id, NOON, "CANCELLED")
    scheduling.clock.advance(days=901)
    assert await scheduling.fire() == 0
    (record,) = await scheduling.query(
        "SELECT operation, before, after, tenant_id FROM tenantcron.audit_record"
        " WHERE entity_id = :id",
        id=str(task_id),
    )
    assert (record["operation"], record["tenant_id"]) == ("cancel", "acme")
    assert record["before"]["state"] == "WAITING"


async def test_a_running_task_is_cancelled_by_force_only(scheduling: Scheduling) -> None:
    task_id = await scheduling.task()
    await scheduling.claim()

    with pytest.raises(OperationError, match="is running"):
        await operator(scheduling).cancel(task_id)
    cancelled = await operator(scheduling).cancel(task_id, "stop", force=True)

    assert cancelled.state is TaskState.RUNNING
    assert (await scheduling.rows())[0]["cancel_requested_at"] == NOON


async def test_a_cancelled_task_can_be_retried(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=timedelta(days=1))
    await operator(scheduling).cancel(task_id)

    retried = await operator(scheduling).retry(task_id)

    assert retried.state is TaskState.PENDING
    (claimed,) = (await scheduling.claim()).started
    assert claimed.id == task_id


async def test_only_a_waiting_task_is_rescheduled(scheduling: Scheduling) -> None:
    task_id = await scheduling.task(delay=LATER)

    moved = await operator(scheduling).reschedule(task_id, NOON + 3 * LATER)
    assert (moved.execute_at, moved.state) == (NOON + 3 * LATER, TaskState.WAITING)
    scheduling.clock.advance(hours=2)
    assert await scheduling.fire() == 0
    early = await operator(scheduling).reschedule(task_id, NOON)
    assert early.execute_at == scheduling.clock.now
    assert await scheduling.fire() == 1
    with pytest.raises(OperationError, match="is PENDING"):
        await operator(scheduling).reschedule(task_id, NOON + 9 * LATER)

    records = await scheduling.query(
        "SELECT before, after FROM tenantcron.audit_record WHERE entity_type = 'task' ORDER BY id"
    )
    assert len(records) == 2


async def test_an_unknown_task_is_reported(scheduling: Scheduling) -> None:
    for operation in (operator(scheduling).cancel, operator(scheduling).retry):
        with pytest.raises(UnknownTaskError):
            await operation(uuid4())


async def page(scheduling: Scheduling, after: UUID | None = None, **filters: object) -> TaskPage:
    async with scheduling.database.transaction() as connection:
        return await tasks.page(connection, TaskFilter(**filters), after=after, limit=3)  # type: ignore[arg-type] # as given


async def test_pages_list_the_newest_tasks_first(scheduling: Scheduling) -> None:
    await scheduling.tenant("umbra")
    ids = [await scheduling.task(saga=f"s{number}", delay=LATER) for number in range(7)]
    await scheduling.task(tenant="umbra")

    first = await page(scheduling, tenant="acme")
    second = await page(scheduling, first.after, tenant="acme")
    third = await page(scheduling, second.after, tenant="acme")

    assert [task.id for task in first.tasks + second.tasks + third.tasks] == ids[::-1]
    assert third.after is None
    assert len((await page(scheduling)).tasks) == 3


async def test_pages_can_be_filtered(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_SEARCHED", 4)
    waiting = [await scheduling.task(saga="a", delay=LATER) for _ in range(2)]
    pending = [await scheduling.task(saga="b") for _ in range(5)]
    done = await scheduling.task(saga="c", idempotency_key="k")
    (claimed,) = (await scheduling.claim(scheduling.replica("one", "c"))).started
    await scheduling.finish(claimed)

    async def found(**filters: object) -> list[UUID]:
        ids, after = list[UUID](), None
        while True:
            listed = await page(scheduling, after, **filters)
            ids += [task.id for task in listed.tasks]
            if listed.after is None:
                return ids
            after = listed.after

    assert await found(states=(TaskState.WAITING,)) == waiting[::-1]
    assert await found(states=(TaskState.PENDING,)) == pending[::-1]
    assert await found(states=(TaskState.SUCCEEDED,)) == [done]
    assert await found(states=(TaskState.WAITING, TaskState.SUCCEEDED)) == [done, *waiting[::-1]]
    assert await found(states=(TaskState.DEAD,)) == []
    assert await found(saga="b") == pending[::-1]
    assert await found(since=NOON + LATER) == waiting[::-1]
    assert await found(until=NOON + LATER, saga="c") == [done]


async def test_old_tasks_are_forgotten_with_their_keys(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_FORGOTTEN", 2)
    old = [await scheduling.task(idempotency_key=f"k{number}") for number in range(5)]
    for claimed in (await scheduling.claim()).started:
        await scheduling.finish(claimed)
    future = await scheduling.task(delay=timedelta(days=1500))
    pending = await scheduling.task()
    retention = scheduling.settings.retention
    scheduling.clock.now += retention + timedelta(days=30)
    await forget_tasks(scheduling.replica(), scheduling.clock.now)
    assert len(await scheduling.rows("task", "id")) == len(old) + 2
    # A key is remembered for the retention, and longer.
    (same,) = await scheduling.submit(idempotency_key="k1")
    assert (same.id, same.existed) == (old[1], True)

    scheduling.clock.now += timedelta(days=40)
    await forget_tasks(scheduling.replica(), scheduling.clock.now)

    assert [row["id"] for row in await scheduling.rows("task", "id")] == [future, pending]
    (again,) = await scheduling.submit(idempotency_key="k1")
    assert not again.existed
