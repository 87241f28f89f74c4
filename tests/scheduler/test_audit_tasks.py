"""The audit of tasks: every submitted task has exactly one execution."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from support.plans import touched
from support.scheduling import NOON, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.inspect.audit_findings import AuditFinding
from tenantcron.store.rows import audited_tasks

DAY = timedelta(days=1)
LATER = timedelta(hours=1)
COPY = (
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, overlap, priority, not_before, attempts_allowed,"
    " actor_id, actor_type, actor_source, created_at, requires)"
    " SELECT id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, :at, :state,"
    " overlap, priority, not_before, attempts_allowed, actor_id, actor_type, actor_source,"
    " created_at, requires FROM tenantcron.execution WHERE id = :id LIMIT 1"
)


async def found(
    scheduling: Scheduling, since: datetime | None = None, tenant: TenantId | None = None
) -> list[AuditFinding]:
    """Return the findings, except that the tenants of these tests have no schema."""
    report = await audit(
        scheduling.database, 30 * DAY, since=since, tenant=tenant, at=scheduling.clock()
    )
    return [finding for finding in report.findings if finding.code != "unreadable"]


async def messages(scheduling: Scheduling, **options: Any) -> list[tuple[str, str]]:
    return [(item.code.value, item.message) for item in await found(scheduling, **options)]


async def copy(scheduling: Scheduling, task: UUID, at: datetime, state: str = "SUCCEEDED") -> None:
    """Insert another execution of a task, for another time."""
    await scheduling.execute(COPY, id=task, at=at, state=state)


async def test_tasks_that_wait_run_and_end_give_no_findings(scheduling: Scheduling) -> None:
    await scheduling.task(delay=2 * LATER)
    await scheduling.task(delay=LATER)
    for claimed in (await scheduling.claim()).started:
        await scheduling.finish(claimed)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    for _ in range(2):
        await scheduling.task()
    (first, _) = (await scheduling.claim()).started[:2]
    await scheduling.finish(first)
    await scheduling.schedule()
    scheduling.clock.advance(minutes=30)

    assert await found(scheduling) == []


async def test_a_fired_task_without_an_execution_is_lost(scheduling: Scheduling) -> None:
    lost = await scheduling.task(saga="invoice")
    await scheduling.task(saga="invoice")
    await scheduling.execute("DELETE FROM tenantcron.execution WHERE id = :id", id=lost)

    assert await messages(scheduling) == [
        ("lost-task", f"task {lost} of saga invoice has 0 executions, not 1")
    ]


async def test_a_second_execution_is_found_whatever_its_time_is(scheduling: Scheduling) -> None:
    early, late, pending = [await scheduling.task(saga=saga) for saga in ("a", "b", "c")]
    await copy(scheduling, early, NOON - 40 * DAY)
    await copy(scheduling, late, NOON + LATER, "DEAD")
    await copy(scheduling, pending, NOON, "CANCELLED")

    assert sorted(await messages(scheduling, since=NOON - DAY)) == [
        ("doubled-task", f"task {task} of saga {saga} has 2 executions, not 1")
        for saga, task in sorted({"a": early, "b": late, "c": pending}.items())
    ]


async def test_an_execution_without_a_fired_task_is_orphaned(scheduling: Scheduling) -> None:
    deleted = await scheduling.task(saga="deleted")
    waiting = await scheduling.task(saga="waiting")
    other = await scheduling.task("other")
    await scheduling.task()
    await scheduling.execute("DELETE FROM tenantcron.task WHERE id IN (:a, :b)", a=deleted, b=other)
    await scheduling.execute("UPDATE tenantcron.task SET fired_at = NULL WHERE id = :a", a=waiting)

    assert sorted(await messages(scheduling, tenant=TenantId("acme"))) == [
        ("orphaned-execution", f"execution {task} of saga {saga} belongs to no fired task")
        for saga, task in (("deleted", deleted), ("waiting", waiting))
    ]
    assert len(await found(scheduling)) == 3


async def test_tasks_that_no_scheduler_fires_are_overdue(scheduling: Scheduling) -> None:
    for tenant in ("acme", "beta"):
        await scheduling.task(tenant, delay=LATER)
    await scheduling.task(delay=LATER + timedelta(seconds=30))
    scheduling.clock.advance(hours=1, minutes=5)
    assert await found(scheduling) == []

    scheduling.clock.advance(minutes=1)

    findings = await found(scheduling, since=scheduling.clock.now)
    assert [(item.code.value, item.tenant, item.count) for item in findings] == [
        ("overdue-task", "acme", 2),
        ("overdue-task", "beta", 1),
    ]
    assert (findings[0].since, findings[0].until) == (
        NOON + LATER,
        NOON + LATER + timedelta(seconds=30),
    )
    assert findings[0].message == (
        "2 tasks are overdue and not fired, the first since 2026-12-01 13:00:00 UTC"
    )
    await scheduling.fire()
    assert await found(scheduling) == []


async def test_an_audit_reads_only_the_audited_period(scheduling: Scheduling) -> None:
    await scheduling.tenant()
    await add_ended(scheduling, 20, ago=timedelta(hours=1))
    await add_ended(scheduling, 2_000, ago=2 * DAY)
    few = await pages(scheduling)

    await add_ended(scheduling, 20_000, ago=2 * DAY)

    # A deeper index costs a page per lookup.
    assert await pages(scheduling) < few + 200


async def add_ended(scheduling: Scheduling, number: int, *, ago: timedelta) -> None:
    """Add tasks that were fired and ended."""
    await scheduling.execute(
        "WITH made AS (INSERT INTO tenantcron.task (id, tenant_id, saga_name, execute_at,"
        " priority, payload, requires, submitted_at, actor_id, actor_type, actor_source,"
        " authenticated, fired_at)"
        " SELECT gen_random_uuid(), 'acme', 'work', :at, 2, '{}', 'saga:work', :at, 'x',"
        " 'worker', 'sql', false, :at FROM generate_series(1, :number) RETURNING *)"
        " INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
        " definition_id, scheduled_for, state, overlap, priority, not_before, attempts_allowed,"
        " actor_id, actor_type, actor_source, created_at, requires)"
        " SELECT id, tenant_id, id, 'task:work', saga_name, id, execute_at, 'SUCCEEDED', 'allow',"
        " priority, execute_at, 3, actor_id, actor_type, 'task', fired_at, requires FROM made",
        at=scheduling.clock.now - ago,
        number=number,
    )
    for table in ("task", "execution"):
        await scheduling.execute(f"ANALYZE tenantcron.{table}")


async def pages(scheduling: Scheduling) -> int:
    """Return the number of pages that the checks read."""
    since = scheduling.clock.now - DAY
    parameters = {"tenant": None, "since": since, "before": since, "most": 1_000}
    total = 0
    for statement in audited_tasks.STATEMENTS:
        async with scheduling.database.transaction() as connection:
            text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            plan = (await connection.exec_driver_sql(text, parameters)).scalar_one()[0]["Plan"]
        total += touched(plan)
    return total
