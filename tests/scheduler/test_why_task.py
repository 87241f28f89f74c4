"""Why: each thing that keeps a task from running is the answer, and so is its end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from support.fleet import DEPLOYER
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.inspect.task_status import read_task_status
from tenantcron.scheduler.inspect.why_task import explain_task
from tenantcron.scheduler.inspect.why_waiting import Reason
from tenantcron.scheduler.operate.task_operator import TaskOperator
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.rows import tasks, workers
from tenantcron.store.rows.workers import WorkerReport

LEASE = timedelta(seconds=60)
LATER = timedelta(hours=1)


async def reasons(scheduling: Scheduling, task_id: UUID) -> list[Reason]:
    async with scheduling.database.transaction() as connection:
        found = await tasks.find(connection, task_id)
        assert found is not None
        return explain_task(await read_task_status(connection, found, LEASE, scheduling.clock.now))


async def _due(scheduling: Scheduling) -> UUID:
    task_id = await scheduling.task(delay=LATER)
    scheduling.clock.advance(hours=1, minutes=1)
    return task_id


async def _held(scheduling: Scheduling) -> UUID:
    task_id = await _due(scheduling)
    await scheduling.execute(
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at)"
        " VALUES ('former', 'scheduler', :seen, :seen)",
        seen=scheduling.clock.now - timedelta(minutes=59),
    )
    return task_id


async def _suspended(scheduling: Scheduling) -> UUID:
    task_id = await _due(scheduling)
    await scheduling.execute(
        "UPDATE tenantcron.tenant SET status = 'suspended', status_reason = 'unpaid'"
    )
    return task_id


async def _tenant_limit(scheduling: Scheduling) -> UUID:
    await scheduling.task()
    await scheduling.claim()
    await scheduling.execute("UPDATE tenantcron.tenant SET max_concurrent = 1")
    return await scheduling.task()


async def _cluster_limit(scheduling: Scheduling) -> UUID:
    await scheduling.limit(0)
    return await scheduling.task()


async def _running(scheduling: Scheduling) -> UUID:
    task_id = await scheduling.task()
    await scheduling.claim()
    return task_id


async def _ended(
    scheduling: Scheduling, outcome: AttemptOutcome, error: str | None = None, **how: bool
) -> UUID:
    task_id = await scheduling.task()
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed, outcome, error, **how)
    return task_id


async def _dead(scheduling: Scheduling) -> UUID:
    return await _ended(scheduling, AttemptOutcome.FAILED, "bad order", final=True)


async def _retried(scheduling: Scheduling) -> UUID:
    task_id = await scheduling.task()
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed, AttemptOutcome.FAILED, "no route", retry_after=LEASE)
    return task_id


async def _skipped(scheduling: Scheduling) -> UUID:
    task_id = await _suspended(scheduling)
    await scheduling.fire()
    await scheduling.claim()
    return task_id


async def _cancelled(scheduling: Scheduling) -> UUID:
    task_id = await scheduling.task(delay=LATER)
    operator = TaskOperator(scheduling.database, scheduling.settings, DEPLOYER, scheduling.clock)
    await operator.cancel(task_id, "order withdrawn")
    return task_id


@dataclass(frozen=True)
class Case:
    """An event, and the code and text of the expected answer."""

    code: str
    says: str
    happen: Callable[[Scheduling], Awaitable[UUID]]


CASES = [
    Case("waits-for-its-time", "due at 2026-12-01 13:00:00 UTC", lambda s: s.task(delay=LATER)),
    Case("waits-to-be-fired", "due since 2026-12-01 13:00:00 UTC", _due),
    Case("waits-for-upgrade", "former, last seen at 2026-12-01 12:02:00 UTC", _held),
    Case("tenant-suspended", "unpaid. Its due tasks are skipped", _suspended),
    Case("waits-for-runner", "can run saga `rare`", lambda s: s.task(saga="rare")),
    Case("waits-for-cluster-limit", "0 of 0 executions", _cluster_limit),
    Case("waits-for-tenant-limit", "1 of 1 are running", _tenant_limit),
    Case("waits-for-claim", "may start", lambda s: s.task()),
    Case("waits-for-its-time", "attempt 1 failed: no route", _retried),
    Case("running", "attempt 1 since 2026-12-01 12:00:00 UTC on one", _running),
    Case("succeeded", "did run at", lambda s: _ended(s, AttemptOutcome.SUCCEEDED)),
    Case("dead", ": bad order.", _dead),
    Case("skipped", "tenant suspended: unpaid.", _skipped),
    Case("cancelled", ": order withdrawn.", _cancelled),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.says}")
async def test_the_main_reason_comes_first(scheduling: Scheduling, case: Case) -> None:
    task_id = await case.happen(scheduling)
    report = WorkerReport(
        "one", "scheduler", running=0, abandoned=0, draining=False, capabilities=("saga:work",)
    )
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())

    first = (await reasons(scheduling, task_id))[0]

    assert first.code == case.code
    assert case.says in first.message
    assert first.hint.endswith(".")


async def test_a_task_without_a_scheduler_names_its_time_or_the_scheduler(
    scheduling: Scheduling,
) -> None:
    task_id = await scheduling.task(delay=LATER)
    assert [reason.code for reason in await reasons(scheduling, task_id)] == [
        "waits-for-its-time",
        "no-replica",
    ]
    scheduling.clock.now = NOON + LATER
    assert [reason.code for reason in await reasons(scheduling, task_id)] == [
        "no-replica",
        "waits-to-be-fired",
    ]


async def test_a_lost_scheduler_of_the_previous_release_holds_tasks_for_an_hour(
    scheduling: Scheduling,
) -> None:
    task_id = await _held(scheduling)
    scheduling.clock.advance(minutes=2)

    assert (await reasons(scheduling, task_id))[-1].code == "waits-to-be-fired"
