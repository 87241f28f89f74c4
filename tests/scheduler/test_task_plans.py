"""Query plans of tasks: waiting tasks cost index space, never time per tick or per execution."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from support.plans import explained, nodes, touched
from support.scheduling import NOON, Scheduling
from support.scraping import read

from tenantcron.core.names import TenantId
from tenantcron.scheduler.metrics import prometheus
from tenantcron.scheduler.metrics.prometheus import Metrics
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.store.steps import submit
from tenantcron.store.steps.measuring import HistoryQuery

DUE = 50
LATER = timedelta(hours=1)


async def add_waiting(scheduling: Scheduling, number: int, tenants: int = 50) -> None:
    """Add waiting tasks of several tenants, due from tomorrow on."""
    await scheduling.execute(
        "INSERT INTO tenantcron.task (id, tenant_id, saga_name, execute_at, priority, payload,"
        " requires, submitted_at, actor_id, actor_type, actor_source, authenticated)"
        " SELECT gen_random_uuid(), 't' || n % :tenants, 'work',"
        " cast(:now AS timestamptz) + interval '1 day' + n * interval '1 s', 2, '{}', 'saga:work',"
        " :now, 'x', 'worker', 'sql', false FROM generate_series(1, :number) AS n",
        number=number,
        tenants=tenants,
        now=NOON,
    )
    async with scheduling.database.engine.connect() as connection:
        await connection.execute(text("ANALYZE tenantcron.task"))
        await connection.commit()


def sequential(plan: dict[str, Any]) -> list[str]:
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "task"
    ]


async def costs(scheduling: Scheduling) -> dict[str, int]:
    """Return the pages that each statement reads, and check that none reads the table."""
    at = scheduling.clock.now
    ahead = timedelta(seconds=5)
    fire = {"at": at, "id": None, "batch": 1000, "source": "task", "ahead": ahead}
    plans = {
        "fire_tasks": await explained(
            scheduling, "fire_tasks", retention=timedelta(days=90), **fire
        ),
        "next_due": await explained(scheduling, "next_due", at=at, ahead=ahead),
    }
    assert [name for name, plan in plans.items() if sequential(plan)] == []
    return {name: touched(plan) for name, plan in plans.items()}


async def test_waiting_tasks_cost_nothing_per_tick(scheduling: Scheduling) -> None:
    await scheduling.tenant()
    await add_waiting(scheduling, 2000)
    await scheduling.submit(*[TaskRequest("work", delay=timedelta(minutes=1))] * DUE)
    scheduling.clock.advance(minutes=2)
    few = await costs(scheduling)

    await add_waiting(scheduling, 100_000)
    many = await costs(scheduling)

    # A deeper index costs a page per lookup, and a fired task changes five indexes.
    assert {name: (few[name], many[name]) for name in few if many[name] > few[name] + 6 * DUE} == {}


async def test_due_tasks_are_not_compared_with_each_other_if_the_statistics_are_old(
    scheduling: Scheduling,
) -> None:
    await scheduling.tenant()
    await scheduling.execute("ANALYZE tenantcron.task")
    await scheduling.submit(*[TaskRequest("work", delay=timedelta(minutes=1))] * 200)
    scheduling.clock.advance(minutes=2)
    plan = await explained(
        scheduling,
        "fire_tasks",
        at=scheduling.clock.now,
        id=None,
        batch=1000,
        source="task",
        ahead=timedelta(0),
        retention=timedelta(days=90),
    )

    assert sum(node.get("Rows Removed by Join Filter", 0) for node in nodes(plan)) == 0


async def test_a_submission_reads_no_table_or_index_in_full(scheduling: Scheduling) -> None:
    await add_waiting(scheduling, 9000, tenants=3)
    await scheduling.tenant("t1")
    await scheduling.submit(*[TaskRequest("work", delay=LATER)] * 1000, tenant="t1")
    await scheduling.submit(*[TaskRequest("work")] * 1000, tenant="t1")
    await scheduling.execute("ANALYZE tenantcron.execution_live")
    await scheduling.execute("ANALYZE tenantcron.task")

    # The second one has the key of the first, and another task.
    for number in (1, 2):
        scans, rows = await rows_read(scheduling, number)
        assert scans == 0
        assert rows < 40


async def rows_read(scheduling: Scheduling, number: int) -> tuple[int, int]:
    """Submit tasks with keys; return the full scans, and the rows that were read by index."""
    requests = [TaskRequest("work", idempotency_key=f"key{place}") for place in range(number)]
    async with scheduling.database.transaction() as connection:
        await submit.submit(connection, TenantId("t1"), batch_json(requests), scheduling.clock.now)
        read = await connection.execute(
            text(
                "SELECT sum(seq_scan), sum(idx_tup_fetch)"
                " FROM pg_catalog.pg_stat_xact_all_tables"
                " WHERE relname IN ('task', 'execution_live', 'tenant_pending')"
            )
        )
        scans, rows = read.one()
    return int(scans), int(rows)


async def test_metrics_count_waiting_tasks_up_to_a_bound_and_estimate_the_rest(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_TASKS", 100)
    await scheduling.tenant()
    await add_waiting(scheduling, 20_000)
    # Waiting tasks come after them in the table.
    await scheduling.execute("UPDATE tenantcron.task SET fired_at = submitted_at")
    await add_waiting(scheduling, 60)
    await scheduling.submit(*[TaskRequest("work", delay=timedelta(minutes=1))] * DUE)
    scheduling.clock.advance(minutes=3)

    assert await waiting_tasks(scheduling) == ({"now": DUE, "later": 60}, 120)

    pages = await pages_of_metrics(scheduling)
    await add_waiting(scheduling, 30_000)
    shown, _ = await waiting_tasks(scheduling)
    assert shown["now"] == DUE
    assert 25_000 < shown["later"] < 35_000
    assert await pages_of_metrics(scheduling) < pages + 200


async def waiting_tasks(scheduling: Scheduling) -> tuple[dict[str, float], float | None]:
    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    scraped = read((await metrics.scrape()).decode())
    return scraped.values("tasks_waiting", "when"), scraped.value("task_lag_seconds")


async def pages_of_metrics(scheduling: Scheduling) -> int:
    """Return the pages that the counts read, and check that none reads the table."""
    query = HistoryQuery(timedelta(days=7), 100, 100, 20, "x")
    plan = await explained(scheduling, "measure_history", at=scheduling.clock.now, **asdict(query))
    assert sequential(plan) == []
    return touched(plan)
