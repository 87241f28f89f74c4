"""What commands can do with the tasks of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from tenantcron.core.errors import DeclinedError, NotFoundError, UsageError
from tenantcron.core.execution_ids import ambiguous, id_range
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


# Enough to show that a prefix is ambiguous.
CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task of a tenant, written as TENANT/ID; the id may be its first characters."""

    tenant: TenantId
    prefix: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.prefix}"


def task_ref(text: str) -> TaskRef:
    """Parse TENANT/ID from user input."""
    tenant, slash, task = text.partition("/")
    if not slash:
        raise UsageError(f"{text!a} is not a task: write TENANT/ID, as `task list` shows them")
    id_range(task, "task")
    return TaskRef(tenant_id(tenant), task.lower())


def task_id(ref: TaskRef, found: Sequence[str]) -> str:
    """Return the only id that was found for a prefix."""
    if len(found) == 1:
        return found[0]
    if found:
        raise DeclinedError(ambiguous(ref.prefix, found, "task"))
    raise NotFoundError(
        f"no task of {ref.tenant} has an id that begins with {ref.prefix}",
        f"`tenantcron task list {ref.tenant}` shows ids",
    )


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
