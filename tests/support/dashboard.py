"""A fleet for the dashboard: tenants, versions, executions in all states, and users."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from support.serving import Api, apply

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import history_months

EVIL = "<script>document.title = 'taken'</script><b>bold</b>"
DEAD = UUID("dead0000-0000-4000-8000-000000000001")
RUNNING = UUID("aaaa0000-0000-4000-8000-000000000002")
OF_OTHERS = UUID("bbbb0000-0000-4000-8000-000000000003")

_EXECUTION = text(
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, reason, overlap, priority, not_before, attempt,"
    " attempts_allowed, actor_id, actor_type, actor_source, created_at, started_at, finished_at,"
    " lease_until, lease_token, worker_id)"
    " SELECT :id, c.tenant_id, c.schedule_id, c.schedule_name, c.saga_name, c.definition_id,"
    " now() - CAST(:ago AS interval), CAST(:state AS text), CAST(:reason AS text),"
    " 'skip', 2, now(), 1, 3,"
    " 'system:scheduler:scheduler', 'scheduler', 'cron-scheduler', now() - interval '1 day',"
    " now() - CAST(:ago AS interval),"
    " CASE WHEN CAST(:state AS text) = 'RUNNING' THEN NULL"
    " ELSE now() - CAST(:ago AS interval) + CAST(:took AS interval) END,"
    " now() + interval '1 hour', gen_random_uuid(), 'host:1:ab'"
    " FROM tenantcron.schedule_cursor AS c WHERE tenant_id = :tenant AND schedule_name = :schedule"
)
_ATTEMPT = text(
    "INSERT INTO tenantcron.execution_attempt (execution_id, scheduled_for, attempt, worker_id,"
    " started_at, finished_at, outcome, error, http_status, answer)"
    " SELECT id, scheduled_for, 1, 'host:1:ab', started_at, finished_at, 'FAILED', :error, 503,"
    " :answer FROM tenantcron.execution WHERE id = :id"
)


async def furnish(api: Api) -> None:
    """Create two tenants: one with two versions and all states, and one of other users."""
    await api.tenants("acme", "globex")
    nightly = 'cron: "30 1 * * *", timezone: Europe/London'
    await apply(api, "acme", {"nightly": nightly, "old_report": 'cron: "0 6 * * 1"'})
    await apply(
        api,
        "acme",
        {
            "nightly": 'cron: "30 1 * * *", timezone: Europe/London, timeout: 9m',
            "hourly": 'cron: "0 * * * *"',
        },
    )
    await apply(api, "globex", {"nightly": 'cron: "0 2 * * *"'})
    await refresh(api.database, TenantScheduleProvider())
    async with api.database.transaction() as connection:
        await history_months.prepare(connection, await database_time(connection), timedelta(days=3))
    for number, state in enumerate(("SUCCEEDED", "SKIPPED", "MISSED", "CANCELLED", "SUCCEEDED")):
        await execution(api, UUID(int=number + 1), "acme", "nightly", state, hours=number + 2)
    await execution(api, DEAD, "acme", "nightly", "DEAD", hours=1)
    await execution(api, RUNNING, "acme", "hourly", "RUNNING", hours=0)
    await execution(api, OF_OTHERS, "globex", "nightly", "DEAD", hours=1)
    async with api.database.transaction() as connection:
        attempt = {"id": DEAD, "error": f"it said {EVIL}", "answer": f"no: {EVIL}"}
        await connection.execute(_ATTEMPT, attempt)


async def execution(
    api: Api, of: UUID, tenant: str, schedule: str, state: str, *, hours: int
) -> None:
    """Insert an execution."""
    values = {
        "id": of,
        "tenant": tenant,
        "schedule": schedule,
        "state": state,
        "ago": timedelta(hours=hours),
        "took": timedelta(seconds=3),
        "reason": f"because {EVIL}" if state == "DEAD" else None,
    }
    async with api.database.transaction() as connection:
        await connection.execute(_EXECUTION, values)
