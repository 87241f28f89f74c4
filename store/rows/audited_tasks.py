"""Tasks and their executions for an audit: every submitted task has exactly one execution.

A fired task and its execution have the same id, and the transaction that marks the task inserts the
execution. So the three checks are exact at any moment:

- executions are counted by id, whatever their time is;
- an execution of a task needs a fired task of this id;
- a task that is due is fired within seconds.

The first two read only what was fired within the audited period, and look up each row by key.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId

# How many rows each check reports, and how many overdue tasks it counts.
MOST_REPORTED: Final = 1_000
MOST_OVERDUE: Final = 10_000
# As for overdue schedules in `health`: a restart of all schedulers takes less.
OVERDUE_AFTER: Final = timedelta(minutes=5)


class MiscountedTask(NamedTuple):
    """A fired task, and the number of its executions, which is not one."""

    id: UUID
    tenant_id: TenantId
    saga_name: str
    execute_at: datetime
    executions: int


class OrphanedExecution(NamedTuple):
    """An execution of a task that does not exist, or that was not fired."""

    id: UUID
    tenant_id: TenantId
    saga_name: str
    scheduled_for: datetime


class OverdueTasks(NamedTuple):
    """The overdue tasks of a tenant that were not fired."""

    tenant_id: TenantId
    first: datetime
    last: datetime
    number: int


# By id alone: each lookup probes the index of every month, so a second execution is found wherever
# its time is.
_MISCOUNTED = """
SELECT t.id, t.tenant_id, t.saga_name, t.execute_at, e.number
FROM tenantcron.task AS t
CROSS JOIN LATERAL (
    SELECT count(*)::int AS number FROM tenantcron.execution AS x WHERE x.id = t.id
) AS e
WHERE
    t.fired_at >= %(since)s AND least(t.execute_at, t.fired_at) >= %(since)s
    AND (%(tenant)s::text IS NULL OR t.tenant_id = %(tenant)s) AND e.number <> 1
ORDER BY t.fired_at
LIMIT %(most)s
"""
# The task of an execution in the audited period is kept: tasks are deleted months later. History
# before the first task is not read.
_ORPHANED = """
SELECT e.id, e.tenant_id, e.saga_name, e.scheduled_for
FROM tenantcron.execution AS e
WHERE
    e.schedule_id = e.id AND e.scheduled_for >= greatest(%(since)s, coalesce((
        SELECT least(t.execute_at, t.fired_at)
        FROM tenantcron.task AS t
        WHERE t.fired_at IS NOT NULL
        ORDER BY t.fired_at
        LIMIT 1
    ), 'infinity'))
    AND (%(tenant)s::text IS NULL OR e.tenant_id = %(tenant)s)
    AND NOT EXISTS (
        SELECT FROM tenantcron.task AS t WHERE t.id = e.id AND t.fired_at IS NOT NULL
    )
ORDER BY e.scheduled_for
LIMIT %(most)s
"""
_OVERDUE = """
SELECT tenant_id, min(execute_at), max(execute_at), count(*)::int
FROM (
    SELECT t.tenant_id, t.execute_at
    FROM tenantcron.task AS t
    WHERE
        t.fired_at IS NULL AND t.execute_at < %(before)s
        AND (%(tenant)s::text IS NULL OR t.tenant_id = %(tenant)s)
    ORDER BY t.execute_at
    LIMIT %(most)s
) AS overdue
GROUP BY tenant_id
ORDER BY tenant_id
"""


STATEMENTS: Final = (_MISCOUNTED, _ORPHANED, _OVERDUE)


async def miscounted(
    connection: AsyncConnection, tenant: TenantId | None, since: datetime
) -> list[MiscountedTask]:
    """Return fired tasks that do not have exactly one execution, at most `MOST_REPORTED`."""
    parameters = {"tenant": tenant, "since": since, "most": MOST_REPORTED}
    rows = await connection.exec_driver_sql(_MISCOUNTED, parameters)
    return [MiscountedTask._make(row) for row in rows]


async def orphaned(
    connection: AsyncConnection, tenant: TenantId | None, since: datetime
) -> list[OrphanedExecution]:
    """Return executions of tasks without a fired task, at most `MOST_REPORTED`."""
    parameters = {"tenant": tenant, "since": since, "most": MOST_REPORTED}
    rows = await connection.exec_driver_sql(_ORPHANED, parameters)
    return [OrphanedExecution._make(row) for row in rows]


async def overdue(
    connection: AsyncConnection, tenant: TenantId | None, now: datetime
) -> list[OverdueTasks]:
    """Return the tasks that were due `OVERDUE_AFTER` ago and were not fired, by tenant.

    At most the first `MOST_OVERDUE` of them are counted.
    """
    parameters = {"tenant": tenant, "before": now - OVERDUE_AFTER, "most": MOST_OVERDUE}
    rows = await connection.exec_driver_sql(_OVERDUE, parameters)
    return [OverdueTasks._make(row) for row in rows]
