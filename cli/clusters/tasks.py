"""What commands can do with the tasks of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId, tenant_id
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    TaskDetailsResponse,
    TaskResponse,
    TaskWhyResponse,
)

# The package of the client loads httpx, which commands on a database do not need.
if TYPE_CHECKING:
    from tenantcron.client.tasks import Submission


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task of a tenant, written as TENANT/ID."""

    tenant: TenantId
    id: UUID

    def __str__(self) -> str:
        return f"{self.tenant}/{self.id}"


def task_ref(text: str) -> TaskRef:
    """Parse TENANT/ID from user input."""
    tenant, slash, task = text.partition("/")
    if not slash:
        raise UsageError(f"{text!a} is not a task: write TENANT/ID, as `task list` shows them")
    try:
        return TaskRef(tenant_id(tenant), UUID(task))
    except ValueError:
        raise UsageError(f"{task!a} is not the id of a task: copy it from `task list`") from None


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Filters of a list of tasks; None and an empty list match all."""

    tenant: TenantId | None
    saga: str | None
    states: Sequence[str]
    since: datetime | None
    until: datetime | None


class TaskOperations(Protocol):
    """Tasks."""

    async def submit(self, tenant: TenantId, submission: "Submission") -> SubmittedTaskResponse:
        """Submit a task, or return the one with the same key."""

    async def newest(self, query: TaskQuery, limit: int) -> Sequence[TaskResponse]:
        """Return the newest tasks, of all tenants or of one that must exist."""

    async def show(self, ref: TaskRef) -> TaskDetailsResponse:
        """Return a task with its attempts."""

    async def why(self, ref: TaskRef) -> TaskWhyResponse:
        """Return why a task has not run, or how it ended."""

    async def cancel(self, ref: TaskRef, reason: str | None, *, force: bool) -> TaskResponse:
        """Cancel a task; with `force` a running one, too."""

    async def retry(self, ref: TaskRef) -> TaskResponse:
        """Run a dead or cancelled task again."""

    async def reschedule(self, ref: TaskRef, execute_at: datetime) -> TaskResponse:
        """Move a waiting task to another time."""
