"""Tasks on a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.cli.clusters.tasks import CANDIDATES, TaskQuery, TaskRef, task_id
from tenantcron.client import tasks
from tenantcron.client.tasks import Submission
from tenantcron.core.execution_ids import is_complete
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
        return await self.caller.send(tasks.show(ref.tenant, await self._id(ref)))

    async def why(self, ref: TaskRef) -> TaskWhyResponse:
        """Return why a task has not run, or how it ended."""
        return await self.caller.send(tasks.why(ref.tenant, await self._id(ref)))

    async def cancel(self, ref: TaskRef, reason: str | None, *, force: bool) -> TaskResponse:
        """Cancel a task; with `force` a running one, too."""
        return await self.caller.send(
            tasks.cancel(ref.tenant, await self._id(ref), reason, force=force)
        )

    async def retry(self, ref: TaskRef) -> TaskResponse:
        """Run a dead or cancelled task again."""
        return await self.caller.send(tasks.retry(ref.tenant, await self._id(ref)))

    async def reschedule(self, ref: TaskRef, execute_at: datetime) -> TaskResponse:
        """Move a waiting task to another time."""
        call = tasks.reschedule(ref.tenant, await self._id(ref), execute_at=execute_at)
        return await self.caller.send(call)

    async def _id(self, ref: TaskRef) -> str:
        """Return the only id of the tenant with a prefix; a complete id is not looked up."""
        if is_complete(ref.prefix):
            return str(UUID(ref.prefix))
        call = tasks.list_of(ref.tenant, id_prefix=ref.prefix.replace("-", ""))
        return task_id(ref, [task["id"] for task in await self.caller.first(call, CANDIDATES)])
