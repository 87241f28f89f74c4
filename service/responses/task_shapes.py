"""The types of JSON responses about tasks.

Like `shapes`, this module must not import a database driver.
"""

from collections.abc import Mapping
from typing import Annotated, Final

# Pydantic requires this TypedDict on older versions of Python.
from typing_extensions import TypedDict

from tenantcron.service.responses.shapes import (
    STATES,
    ActorResponse,
    AttemptResponse,
    FindingResponse,
    Id,
    JsonKeywords,
    Time,
)

WAITING: Final = "WAITING"
# A task has no catch-up: it is never missed.
TASK_STATES: Final = (WAITING, *(state for state in STATES if state != "MISSED"))
PRIORITIES: Final = ("critical", "high", "medium", "low")
TaskStateName = Annotated[str, JsonKeywords(enum=TASK_STATES)]
PriorityName = Annotated[str, JsonKeywords(enum=PRIORITIES)]


class SubmittedTaskResponse(TypedDict):
    """A submitted task; `existed` if an earlier submission with the same key created it."""

    id: Id
    tenant: str
    saga: str
    state: TaskStateName
    execute_at: Time
    existed: bool


class SubmittedTasksResponse(TypedDict):
    """The tasks of a batch, in the order of the request."""

    tasks: list[SubmittedTaskResponse]


class TaskResponse(TypedDict):
    """A task: WAITING until its time has come, then in the state of its execution."""

    id: Id
    tenant: str
    saga: str
    state: TaskStateName
    execute_at: Time
    priority: PriorityName
    idempotency_key: str | None
    submitted_at: Time
    actor: ActorResponse
    # Of the execution; null and 0 before it exists.
    reason_code: str | None
    reason: str | None
    attempt: int
    started_at: Time | None
    finished_at: Time | None


class TaskDetailsResponse(TaskResponse):
    """A task with its input, its settings and the attempts of its execution."""

    payload: Mapping[str, object]
    # Null: a Python handler runs the saga.
    target: Mapping[str, object] | None
    timeout: str
    max_attempts: int
    owner: str | None
    attempts: list[AttemptResponse]


class TaskWhyResponse(TypedDict):
    """Why a task has not run; the first finding is the answer."""

    tenant: str
    task: Id
    answer: str
    findings: list[FindingResponse]


class TaskPageResponse(TypedDict):
    """A page of tasks, the newest first."""

    tasks: list[TaskResponse]
    next: str | None
