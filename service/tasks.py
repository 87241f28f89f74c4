"""Reads of tasks for the API and the command line."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.scheduler.inspect.task_status import read_task_status
from tenantcron.scheduler.inspect.why_task import explain_task
from tenantcron.scheduler.operate.task_operator import UnknownTaskError
from tenantcron.service.responses.task_shapes import TaskDetailsResponse, TaskWhyResponse
from tenantcron.service.responses.tasks import task_details_as_json
from tenantcron.service.responses.why import task_why_as_json
from tenantcron.store.rows import execution_history, tasks
from tenantcron.store.rows.tasks import TaskRow


async def task_of(connection: AsyncConnection, tenant: TenantId, task_id: UUID) -> TaskRow:
    """Return a task of a tenant; raise UnknownTaskError if it is another tenant's."""
    found = await tasks.find(connection, task_id)
    if found is None or found.tenant_id != tenant:
        raise UnknownTaskError(task_id)
    return found


async def task_details(
    connection: AsyncConnection, tenant: TenantId, task_id: UUID
) -> TaskDetailsResponse:
    """Return a task of a tenant with the attempts of its execution."""
    found = await task_of(connection, tenant, task_id)
    rows = await execution_history.with_ids_between(connection, task_id, task_id, 1)
    attempts = await execution_history.attempts_of(connection, rows[0]) if rows else []
    return task_details_as_json(found, attempts)


async def task_why(
    connection: AsyncConnection, tenant: TenantId, task_id: UUID, lease: timedelta
) -> TaskWhyResponse:
    """Return why a task of a tenant has not run."""
    found = await task_of(connection, tenant, task_id)
    status = await read_task_status(connection, found, lease, None)
    return task_why_as_json(found, explain_task(status))
