"""Every order of replicas that fire tasks, and of users who submit, cancel or reschedule them."""

from datetime import timedelta

import pytest
from interleavings.conftest import Theatre
from support.interleaving import Ran
from support.scheduling import NOON

from tenantcron.core.errors import TenantcronError
from tenantcron.schedules.task_request import TaskRequest
from tenantcron.store.steps.submit import Submitted, TasksRejectedError

DUE = TaskRequest("work", execute_at=NOON + timedelta(minutes=1))


async def test_two_replicas_fire_a_task_once(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.submit(DUE)
    stage.scheduling.clock.advance(minutes=2)
    programs = {"one": stage.fire_tasks(), "two": stage.fire_tasks()}

    async def check(_: Ran) -> None:
        await stage.fire_tasks()(stage.scheduling.database)
        assert len(await stage.executions()) == 1

    assert await theatre.every_order(programs, check) > 1


async def test_a_task_that_is_cancelled_while_it_is_fired_never_starts(theatre: Theatre) -> None:
    stage = theatre.stage
    (task,) = await stage.scheduling.submit(DUE)
    stage.scheduling.clock.advance(minutes=2)
    programs = {"fire": stage.fire_tasks(), "cancel": stage.cancel_task(task.id)}

    async def check(ran: Ran) -> None:
        assert not any(isinstance(end, Exception) for end in ran.results.values()), ran.results
        await stage.fire_tasks()(stage.scheduling.database)
        (execution,) = await stage.executions()
        assert execution["state"] == "CANCELLED"

    assert await theatre.every_order(programs, check) > 1


async def test_a_pending_task_is_cancelled_or_runs(theatre: Theatre) -> None:
    stage = theatre.stage
    (task,) = await stage.scheduling.submit(TaskRequest("work"))
    programs = {"claim": stage.claim(), "cancel": stage.cancel_task(task.id)}
    ends = set()

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        cancelled = ran.results["cancel"]
        assert not isinstance(cancelled, Exception) or isinstance(cancelled, TenantcronError)
        if not isinstance(cancelled, Exception):
            assert execution["state"] == "CANCELLED", "a running task is cancelled by force only"
        ends.add(execution["state"])

    assert await theatre.every_order(programs, check) > 1
    assert ends == {"RUNNING", "CANCELLED"}


async def test_a_rescheduled_task_is_never_fired_at_its_old_time(theatre: Theatre) -> None:
    stage = theatre.stage
    (task,) = await stage.scheduling.submit(DUE)
    now = stage.scheduling.clock.advance(minutes=2)
    later = now + timedelta(hours=1)
    programs = {"fire": stage.fire_tasks(), "move": stage.reschedule_task(task.id, later)}
    ends = set()

    async def check(ran: Ran) -> None:
        is_moved = not isinstance(ran.results["move"], TenantcronError)
        rows = await stage.executions()
        assert len(rows) == (not is_moved)
        (found,) = await stage.scheduling.rows("task", "id")
        assert found["execute_at"] == (later if is_moved else DUE.execute_at)
        ends.add(is_moved)

    assert await theatre.every_order(programs, check) > 1
    assert ends == {True, False}


@pytest.mark.parametrize("number", [1, 2])
async def test_one_key_is_one_task_in_every_order(theatre: Theatre, number: int) -> None:
    stage = theatre.stage
    request = TaskRequest("work", {"n": 1}, idempotency_key="once")
    other = TaskRequest("work", {"n": number}, idempotency_key="once")
    programs = {"first": stage.submit(request), "second": stage.submit(other)}

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        accepted = [end for end in ran.results.values() if isinstance(end, Submitted)]
        rejected = [end for end in ran.results.values() if isinstance(end, TasksRejectedError)]
        assert {task.id for task in accepted} == {execution["id"]}
        assert [task.existed for task in accepted].count(False) == 1
        assert len(rejected) == number - 1, ran.results

    assert await theatre.every_order(programs, check) > 1


async def test_a_submission_is_fired_once_whenever_it_commits(theatre: Theatre) -> None:
    stage = theatre.stage
    programs = {"submit": stage.submit(TaskRequest("work")), "fire": stage.fire_tasks()}

    async def check(_: Ran) -> None:
        await stage.fire_tasks()(stage.scheduling.database)
        assert len(await stage.executions()) == 1

    assert await theatre.every_order(programs, check) > 1
