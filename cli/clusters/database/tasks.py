"""Tasks in a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.cli.clusters.tasks import CANDIDATES, TaskQuery, TaskRef, task_id
from tenantcron.core.execution_ids import id_range, is_complete
from tenantcron.core.names import TenantId
from tenantcron.manifests.policy import policy_in
from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.scheduler.operate.task_operator import TaskOperator
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    TaskDetailsResponse,
    TaskResponse,
    TaskWhyResponse,
)
from tenantcron.service.responses.tasks import submitted_as_json, task_as_json
from tenantcron.service.submissions import SubmissionRules, SubmittedOptions, declining
from tenantcron.service.tasks import task_details, task_of, task_why
from tenantcron.store.rows import tasks
from tenantcron.store.rows.tasks import TaskFilter, TaskRow, TaskState

# The package of the client loads httpx, which commands on a database do not need.
if TYPE_CHECKING:
    from tenantcron.client.tasks import Submission


@dataclass(frozen=True, slots=True)
class DatabaseTasks:
    """The tasks of a database."""

    caller: LocalCaller

    async def submit(self, tenant: TenantId, submission: "Submission") -> SubmittedTaskResponse:
        """Submit a task, or return the one with the same key."""
        rules = SubmissionRules(policy_in(self.caller.settings.folder, None))
        options = SubmittedOptions(
            options=submission.options(),
            payload=submission.payload,
            execute_at=submission.execute_at,
            delay=submission.delay,
            idempotency_key=submission.idempotency_key,
        )
        requests = rules.requests(tenant, [options])
        with declining():
            (made,) = await self._operator.submit(tenant, requests)
        return submitted_as_json(tenant, requests[0], made)

    async def newest(self, query: TaskQuery, limit: int) -> Sequence[TaskResponse]:
        """Return the newest tasks, of all tenants or of one that must exist."""
        states = tuple(map(TaskState, query.states))
        filters = TaskFilter(query.tenant, query.saga, states, query.since, query.until)
        found: list[TaskRow] = []
        async with self.caller.database.transaction() as connection:
            if query.tenant is not None:
                await existing_tenant(connection, query.tenant)
            page = await tasks.page(connection, filters, after=None, limit=limit)
            found += page.tasks
            while page.after is not None and len(found) < limit:
                page = await tasks.page(connection, filters, after=page.after, limit=limit)
                found += page.tasks
        return [task_as_json(row) for row in found[:limit]]

    async def show(self, ref: TaskRef) -> TaskDetailsResponse:
        """Return a task with its attempts."""
        async with self.caller.database.transaction() as connection:
            return await task_details(connection, ref.tenant, await _found(connection, ref))

    async def why(self, ref: TaskRef) -> TaskWhyResponse:
        """Return why a task has not run, or how it ended."""
        async with self.caller.database.transaction() as connection:
            found = await _found(connection, ref)
            return await task_why(connection, ref.tenant, found, self.caller.settings.lease)

    async def cancel(self, ref: TaskRef, reason: str | None, *, force: bool) -> TaskResponse:
        """Cancel a task; with `force` a running one, too."""
        found = await self._id(ref)
        return task_as_json(await self._operator.cancel(found, reason, force=force))

    async def retry(self, ref: TaskRef) -> TaskResponse:
        """Run a dead or cancelled task again."""
        return task_as_json(await self._operator.retry(await self._id(ref)))

    async def reschedule(self, ref: TaskRef, execute_at: datetime) -> TaskResponse:
        """Move a waiting task to another time."""
        return task_as_json(await self._operator.reschedule(await self._id(ref), execute_at))

    async def _id(self, ref: TaskRef) -> UUID:
        """Return the id of a task; raise an error if the tenant has no such task."""
        async with self.caller.database.transaction() as connection:
            found = await _found(connection, ref)
            await task_of(connection, ref.tenant, found)
            return found

    @property
    def _operator(self) -> TaskOperator:
        return TaskOperator(self.caller.database, self.caller.settings, self.caller.who)


async def _found(connection: AsyncConnection, ref: TaskRef) -> UUID:
    """Return the only id of the tenant with a prefix; a complete id is not looked up."""
    if is_complete(ref.prefix):
        return UUID(ref.prefix)
    filters = TaskFilter(ref.tenant, ids=id_range(ref.prefix, "task"))
    page = await tasks.page(connection, filters, after=None, limit=CANDIDATES)
    return UUID(task_id(ref, [str(row.id) for row in page.tasks]))
