"""Many executions of existing schedules, inserted at once."""

from support.cursors import run

_ADD = """
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempt, attempts_allowed, actor_id, actor_type, actor_source,
    created_at, requires, finished_at
)
SELECT
    gen_random_uuid(), tenant_id, schedule_id, schedule_name, saga_name, definition_id,
    coalesce(%s::timestamptz, now()) - make_interval(secs => n), %s, 'skip', 2, now(), 1, 3,
    'ada', 'human', 'cron-scheduler', now(), 'saga:' || saga_name, now()
FROM tenantcron.schedule_cursor, generate_series(1, %s) AS n
WHERE tenant_id = %s AND schedule_name = %s
"""


def add_executions(
    url: str,
    count: int,
    *,
    state: str = "DEAD",
    tenant: str = "acme",
    schedule: str = "nightly",
    at: object = None,
) -> None:
    """Insert executions of a schedule, a second apart, the newest a second before `at` or now."""
    run(url, _ADD, at, state, count, tenant, schedule)
