"""What the overview reads does not grow with history."""

import re
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from support.explaining import explained
from support.history import add_history
from support.scheduling import Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import audit_records, execution_history, schedule_cursors, tenants
from tenantcron.store.rows.execution_history import ExecutionFilter
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tenants import TenantFilter
from tenantcron.web.forecast_charts import ENDED, QUARTER

HISTORY = 20_000
# Months that are still empty are read in whichever way is cheapest.
PAST_IN_FULL = '"Seq Scan"[^{]*"Relation Name": "execution_past_2026'


async def test_the_overview_reads_only_the_last_day_by_an_index(
    database: Database, tmp_path: Path
) -> None:
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    await add_history(scheduling, HISTORY)
    now = scheduling.clock.now
    # The rows reach from forty days before to twenty days after: this is the last of them.
    since = now + timedelta(days=19)
    async with database.transaction() as connection:
        await connection.execute(text("ANALYZE tenantcron.execution"))
    outcomes = await explained(
        database,
        lambda session: execution_history.outcomes(
            session, ExecutionFilter(states=ENDED, since=since), span=QUARTER, most=50_000
        ),
    )
    dead = await explained(
        database,
        lambda session: execution_history.page(
            session, ExecutionFilter(states=(State.DEAD,), since=since), before=None, limit=8
        ),
    )
    latest = await explained(
        database,
        lambda session: execution_history.latest_of(session, "t1", ["work", "other"], 12),  # type: ignore[arg-type] # a tenant's id
    )
    for plan in (outcomes, dead, latest):
        assert not re.search(PAST_IN_FULL, plan)
    assert "scheduled_for_id_idx" in outcomes
    # The partial index of the dead has the same columns as the session of the newest.
    assert re.search(r"scheduled_for_id_idx1", dead)
    assert "_tenant_id_schedule" in latest


async def test_the_audit_of_an_execution_is_read_by_its_tenant_and_time(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        now = await database_time(connection)
        await connection.execute(_RECORDS)
        await connection.execute(text("ANALYZE tenantcron.audit_record"))
    plan = await explained(
        database,
        lambda session: audit_records.of_execution(
            session, TenantId("t7"), None, UUID(int=1), since=now - timedelta(days=1), limit=50
        ),
    )
    assert "audit_record_tenant_idx" in plan
    assert '"Seq Scan"' not in plan


_RECORDS = text(
    "INSERT INTO tenantcron.audit_record (entity_type, entity_id, operation, changed_by,"
    " actor_type, actor_source, authenticated, correlation_id, tenant_id, changed_at)"
    " SELECT 'execution', gen_random_uuid(), 'trigger', 'ada', 'human', 'cli', true,"
    " gen_random_uuid(), 't' || n % 50, now() - make_interval(mins => n)"
    " FROM generate_series(1, 20000) AS n"
)


async def test_a_search_for_tenants_reads_a_limited_part_of_the_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "MOST_SEARCHED", 50)
    async with database.transaction() as connection:
        await connection.execute(_TENANTS)
        await connection.execute(text("ANALYZE tenantcron.tenant"))

    async def search(session: AsyncConnection) -> list[str]:
        wanted = TenantFilter(containing="9")
        found = await tenants.page(session, wanted, after="f1010", limit=11)
        return [row.id for row in found]

    plan = await explained(database, search)
    async with database.transaction() as connection:
        assert await search(connection) == ["f1019", "f1029", "f1039", "f1049", "f1059"]
    assert "tenant_pkey" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan


_TENANTS = text(
    "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
    " SELECT 'f' || n, 'tenant_f' || n, now(), now() FROM generate_series(1001, 4000) AS n"
)


async def test_due_timetables_are_read_by_their_index(database: Database, tmp_path: Path) -> None:
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.schedules(3_000, "0 0 1 1 *")
    for hour in range(5):
        await scheduling.schedule(f"daily{hour}", f"0 {hour} * * *")
    async with database.transaction() as connection:
        await connection.execute(text("ANALYZE tenantcron.schedule_cursor"))
    until = scheduling.clock.now + timedelta(days=1)
    plan = await explained(
        database,
        lambda session: schedule_cursors.due_before(
            session, until, at=scheduling.clock.now, most=100_000
        ),
    )
    assert "schedule_cursor_due_idx" in plan
    assert not re.search('"Seq Scan"[^{]*"Relation Name": "schedule_cursor"', plan)
    async with database.transaction() as connection:
        found = await schedule_cursors.due_before(
            connection, until, at=scheduling.clock.now, most=3
        )
    assert [item.cron_expr for item in found] == ["0 0 * * *", "0 1 * * *", "0 2 * * *"]
