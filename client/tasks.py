"""Calls about tasks: one-time work for a moment in the future."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from tenantcron.client.calls import ApiCall, ListCall, body_of, path_of, query_of
from tenantcron.core.durations import format_duration
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    SubmittedTasksResponse,
    TaskDetailsResponse,
    TaskResponse,
    TaskWhyResponse,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A task to submit. Without `execute_at` and `delay` it is due at once.

    Fractions of a second in durations are rounded up.
    """

    # None: the kind of the target.
    saga: str | None = None
    payload: Mapping[str, JsonValue] = field(default_factory=dict)
    execute_at: datetime | None = None
    delay: timedelta | None = None
    priority: str | None = None
    # Submitting the same key again returns the first task.
    idempotency_key: str | None = None
    timeout: timedelta | None = None
    max_attempts: int | None = None
    # The delay before the second attempt, which doubles with each one up to the longest.
    backoff: timedelta | None = None
    max_backoff: timedelta | None = None
    owner: str | None = None
    # None: a Python handler or the platform's default target runs the saga.
    target: Mapping[str, JsonValue] | None = None

    def options(self) -> JsonObject:
        """Return what describes the work, as in a manifest."""
        given = body_of(
            saga=self.saga,
            priority=self.priority,
            timeout=_duration(self.timeout),
            owner=self.owner,
        )
        retry = body_of(
            max_attempts=self.max_attempts,
            backoff=_duration(self.backoff),
            max_backoff=_duration(self.max_backoff),
        )
        if retry:
            given["retry"] = retry
        if self.target is not None:
            given["target"] = dict(self.target)
        return given

    def as_json(self) -> JsonObject:
        """Return the body of the request."""
        more = body_of(
            execute_at=self.execute_at,
            delay=_duration(self.delay),
            idempotency_key=self.idempotency_key,
        )
        return {**self.options(), **more, "payload": dict(self.payload)}


def submit(tenant: str, submission: Submission) -> ApiCall[SubmittedTaskResponse]:
    """Submit a task."""
    path = path_of("tenants", tenant, "tasks")
    return ApiCall("POST", path, SubmittedTaskResponse, body=submission.as_json())


def submit_many(tenant: str, submissions: Sequence[Submission]) -> ApiCall[SubmittedTasksResponse]:
    """Submit up to 1,000 tasks: all of them, or none."""
    path = path_of("tenants", tenant, "tasks:batch")
    tasks: list[JsonValue] = [submission.as_json() for submission in submissions]
    return ApiCall("POST", path, SubmittedTasksResponse, body={"tasks": tasks})


def list_of(
    tenant: str | None = None,
    *,
    saga: str | None = None,
    states: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    id_prefix: str | None = None,
) -> ListCall[TaskResponse]:
    """List the tasks of a tenant, or of all, the newest first; times are those of the execution."""
    query = query_of(saga=saga, state=states, since=since, until=until, id=id_prefix)
    path = path_of("tasks") if tenant is None else path_of("tenants", tenant, "tasks")
    return ListCall(path, "tasks", TaskResponse, query)


def show(tenant: str, task: str) -> ApiCall[TaskDetailsResponse]:
    """Get a task with its attempts."""
    return ApiCall("GET", path_of("tenants", tenant, "tasks", task), TaskDetailsResponse)


def why(tenant: str, task: str) -> ApiCall[TaskWhyResponse]:
    """Explain why a task has not run, or how it ended."""
    return ApiCall("GET", path_of("tenants", tenant, "tasks", task, "why"), TaskWhyResponse)


def cancel(
    tenant: str, task: str, reason: str | None = None, *, force: bool = False
) -> ApiCall[TaskResponse]:
    """Cancel a task that does not run; with `force` a running one, too."""
    path = path_of("tenants", tenant, "tasks", f"{task}:cancel")
    body = body_of(reason=reason, force=force or None)
    return ApiCall("POST", path, TaskResponse, body=body)


def retry(tenant: str, task: str) -> ApiCall[TaskResponse]:
    """Run a dead or cancelled task again."""
    path = path_of("tenants", tenant, "tasks", f"{task}:retry")
    return ApiCall("POST", path, TaskResponse)


def reschedule(
    tenant: str,
    task: str,
    *,
    execute_at: datetime | None = None,
    delay: timedelta | None = None,
) -> ApiCall[TaskResponse]:
    """Move a waiting task to another time."""
    path = path_of("tenants", tenant, "tasks", f"{task}:reschedule")
    body = body_of(execute_at=execute_at, delay=_duration(delay))
    return ApiCall("POST", path, TaskResponse, body=body)


def _duration(span: timedelta | None) -> str | None:
    """Write a duration in whole seconds, which is all that the API reads; round up."""
    if span is None:
        return None
    return format_duration(timedelta(seconds=ceil(span / timedelta(seconds=1))))
