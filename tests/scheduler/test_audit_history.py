"""An audit reads only the history that it covers."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import event
from support.cursors import run
from support.scheduling import Scheduling

from tenantcron.scheduler.inspect.audit import AuditReport, audit

RETENTION = timedelta(days=90)
# Rows of the same tenants and schedules, before the last change of their timetables.
_OLD = """
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempt, attempts_allowed, actor_id, actor_type, actor_source,
    created_at, started_at, finished_at
)
SELECT
    gen_random_uuid(), c.tenant_id, c.schedule_id, c.schedule_name, c.saga_name, c.definition_id,
    c.effective_from - n * interval '1 minute', 'SUCCEEDED', 'skip', 2, now(), 1, 1, 'x',
    'scheduler', 'cron-scheduler', now(), now(), now()
FROM tenantcron.schedule_cursor AS c, generate_series(1, 1000) AS n
"""


async def audited(scheduling: Scheduling) -> AuditReport:
    return await audit(scheduling.database, RETENTION, at=scheduling.clock())


async def test_history_before_the_timetable_is_not_read(
    scheduling: Scheduling, database_url: str
) -> None:
    await scheduling.schedules(20)
    for _ in range(3):
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
    # A third has ended, so that some rows are live and some are history.
    run(
        database_url,
        "UPDATE tenantcron.execution SET state = 'SKIPPED', finished_at = now()"
        " WHERE get_byte(uuid_send(id), 0) % 3 = 0",
    )
    await scheduling.execute(_OLD)
    await scheduling.execute("ANALYZE tenantcron.execution")
    (row,) = await scheduling.query(
        "SELECT count(*) AS n FROM tenantcron.execution_past WHERE state = 'SKIPPED'"
    )

    read, result = await rows_of_history_read(scheduling)

    assert (result.occurrences, [finding for finding in result.findings if finding.schedule]) == (
        60,
        [],
    )
    assert read == row["n"] > 0


async def rows_of_history_read(scheduling: Scheduling) -> tuple[int, AuditReport]:
    """Audit, and count the rows that its statements read from the partitions of the history."""
    sent: list[tuple[str, Any]] = []

    def collect(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if "tenantcron.execution" in statement:
            sent.append((statement, parameters))

    engine = scheduling.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", collect)
    try:
        result = await audited(scheduling)
    finally:
        event.remove(engine, "before_cursor_execute", collect)
    read = 0
    async with scheduling.database.transaction() as connection:
        for statement, parameters in sent:
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            found = (await connection.exec_driver_sql(explain, parameters)).scalar_one()
            plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
            read += sum(map(rows_looked_at, nodes(plan)))
    return read, result


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def rows_looked_at(node: dict[str, Any]) -> int:
    if not node.get("Relation Name", "").startswith("execution_past"):
        return 0
    looked_at = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    # A bitmap or index scan may recheck and discard rows.
    looked_at += node.get("Rows Removed by Index Recheck", 0)
    return int(looked_at * node["Actual Loops"])
