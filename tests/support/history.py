"""A long history of executions, inserted at once."""

from uuid import uuid4

from support.scheduling import Scheduling

HISTORY = """
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempt, attempts_allowed, actor_id, actor_type, actor_source,
    created_at, started_at, finished_at
)
SELECT
    gen_random_uuid(), 't' || n % 50, gen_random_uuid(), 'work', 'work', :definition,
    :now + (20 - n % 60) * interval '1 day',
    CASE WHEN n % 9 = 0 THEN 'SKIPPED' ELSE 'SUCCEEDED' END,
    'skip', 2, :now, 1, 3, 'system:scheduler:scheduler', 'scheduler', 'cron-scheduler',
    :now, :now, :now
FROM generate_series(1, CAST(:number AS int)) AS n
"""


async def add_history(scheduling: Scheduling, number: int) -> None:
    await scheduling.execute(HISTORY, definition=uuid4(), now=scheduling.clock.now, number=number)
    await scheduling.execute("ANALYZE tenantcron.execution")
    await scheduling.execute("ANALYZE tenantcron.schedule_cursor")
