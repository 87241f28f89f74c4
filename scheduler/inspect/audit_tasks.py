"""Compare tasks with executions: every submitted task has exactly one."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.store.rows import audited_tasks
from tenantcron.store.rows.audited_tasks import MiscountedTask, OrphanedExecution, OverdueTasks


async def audit_tasks(
    connection: AsyncConnection, tenant: TenantId | None, since: datetime, now: datetime
) -> list[AuditFinding]:
    """Return the findings on tasks fired since a time, and on tasks that should have fired."""
    miscounted = await audited_tasks.miscounted(connection, tenant, since)
    orphaned = await audited_tasks.orphaned(connection, tenant, since)
    overdue = await audited_tasks.overdue(connection, tenant, now)
    return [*map(_miscounted, miscounted), *map(_orphaned, orphaned), *map(_overdue, overdue)]


def _miscounted(task: MiscountedTask) -> AuditFinding:
    code = AuditCode.DOUBLED_TASK if task.executions else AuditCode.LOST_TASK
    message = f"task {task.id} of saga {task.saga_name} has {task.executions} executions, not 1"
    at = task.execute_at
    return AuditFinding(code, task.tenant_id, None, message, since=at, until=at)


def _orphaned(execution: OrphanedExecution) -> AuditFinding:
    message = f"execution {execution.id} of saga {execution.saga_name} belongs to no fired task"
    at = execution.scheduled_for
    return AuditFinding(
        AuditCode.ORPHANED_EXECUTION, execution.tenant_id, None, message, since=at, until=at
    )


def _overdue(tasks: OverdueTasks) -> AuditFinding:
    number = f"{tasks.number} task is" if tasks.number == 1 else f"{tasks.number} tasks are"
    return AuditFinding(
        AuditCode.OVERDUE_TASK,
        tasks.tenant_id,
        None,
        f"{number} overdue and not fired, the first since {in_utc(tasks.first)}",
        since=tasks.first,
        until=tasks.last,
        count=tasks.number,
    )
