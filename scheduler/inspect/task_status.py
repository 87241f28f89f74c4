"""The status of a task: everything that decides whether it runs, as values."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.scheduler.inspect.start_conditions import StartConditions, read_start_conditions
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow
from tenantcron.store.rows.tasks import TaskRow


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task with its execution, and whether that may start."""

    task: TaskRow
    # None: it was not fired yet.
    execution: ExecutionRow | None
    last_attempt: AttemptRow | None
    start: StartConditions

    @property
    def ref(self) -> str:
        """The task as commands name it."""
        return f"{self.task.tenant_id}/{self.task.id}"


async def read_task_status(
    connection: AsyncConnection, task: TaskRow, lease: timedelta, at: datetime | None
) -> TaskStatus:
    """Read the status of a task."""
    tenant = await existing_tenant(connection, task.tenant_id)
    rows = await execution_history.with_ids_between(connection, task.id, task.id, 1)
    attempts = await execution_history.attempts_of(connection, rows[0]) if rows else []
    return TaskStatus(
        task=task,
        execution=rows[0] if rows else None,
        last_attempt=attempts[-1] if attempts else None,
        start=await read_start_conditions(connection, tenant, lease, at),
    )
