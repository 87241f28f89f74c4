"""Tasks on a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.cli.clusters.tasks import TaskQuery, TaskRef
from tenantcron.client import tasks
from tenantcron.client.tasks import Submission
from tenantcron.core.names import TenantId
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    TaskDetailsResponse,
    TaskResponse,
    TaskWhyResponse,
)


@dataclass(frozen=True, slots=True)
class ServerTasks:
    """The tasks of a server."""

    caller: ServerCaller

    async def submit(self, tenant: TenantId, submission: Submission) -> SubmittedTaskResponse:
        """Submit a task, or return the one with the same key."""
        return await self.caller.send(tasks.submit(tenant, submission))

    async def newest(self, query: TaskQuery, limit: int) -> Sequence[TaskResponse]:
        """Return the newest tasks, of all tenants or of one that must exist."""
        call = tasks.list_of(
            query.tenant,
            saga=query.saga,
            states=query.states,
            since=query.since,
            until=query.until,
        )
        return await self.caller.first(call, limit)

    async def show(self, ref: TaskRef) -> TaskDetailsResponse:
        """Return a task with its attempts."""
        return await self.caller.send(tasks.show(ref.tenant, str(ref.id)))

    async def why(self, ref: TaskRef) -> TaskWhyResponse:
        """Return why a task has not run, or how it ended."""
        return await self.caller.send(tasks.why(ref.tenant, str(ref.id)))

    async def cancel(self, ref: TaskRef, reason: str | None, *, force: bool) -> TaskResponse:
        """Cancel a task; with `force` a running one, too."""
        return await self.caller.send(tasks.cancel(ref.tenant, str(ref.id), reason, force=force))

    async def retry(self, ref: TaskRef) -> TaskResponse:
        """Run a dead or cancelled task again."""
        return await self.caller.send(tasks.retry(ref.tenant, str(ref.id)))

    async def reschedule(self, ref: TaskRef, execute_at: datetime) -> TaskResponse:
        """Move a waiting task to another time."""
        call = tasks.reschedule(ref.tenant, str(ref.id), execute_at=execute_at)
        return await self.caller.send(call)
