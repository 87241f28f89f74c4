"""The types of JSON responses of bulk operations.

Like `shapes`, this module must not import a database driver.
"""

# Pydantic requires this TypedDict on older versions of Python.
from typing_extensions import TypedDict

from tenantcron.service.responses.shapes import ExecutionResponse, Id, PauseResponse


class BulkGroupResponse(TypedDict):
    """The number of matching executions or schedules of a saga of a tenant."""

    tenant: str
    saga: str
    number: int


class RefusedExecutionResponse(TypedDict):
    """An execution that was not changed, and why."""

    execution: Id
    tenant: str
    schedule: str
    detail: str


class ExecutionPreviewResponse(TypedDict):
    """What a bulk operation matches: the number, the largest groups and the first executions."""

    matched: int
    # False: there are more than `matched`; counting has a limit.
    complete: bool
    groups: list[BulkGroupResponse]
    executions: list[ExecutionResponse]


class BulkExecutionsResponse(TypedDict):
    """The result of a batch of executions; `next` is the position of the next batch."""

    changed: int
    refused: list[RefusedExecutionResponse]
    # Executions that changed at the same time. Repeat the operation to include them.
    skipped: int
    next: str | None
    # Only in a dry run.
    preview: ExecutionPreviewResponse | None


class BulkScheduleResponse(TypedDict):
    """A schedule that a bulk operation matches."""

    tenant: str
    schedule: str
    saga: str
    paused: PauseResponse | None


class SchedulePreviewResponse(TypedDict):
    """What a bulk operation matches: the number, the largest groups and the first schedules."""

    matched: int
    # False: there are more than `matched`; counting has a limit.
    complete: bool
    groups: list[BulkGroupResponse]
    schedules: list[BulkScheduleResponse]


class BulkSchedulesResponse(TypedDict):
    """The result of a batch of schedules; `next` is the position of the next batch."""

    changed: int
    # Schedules that changed at the same time. Repeat the operation to include them.
    skipped: int
    # Pending executions that pauses ended.
    ended: int
    # Occurrences of lifted pauses that are recorded as skipped.
    passed_over: int
    next: str | None
    # Only in a dry run.
    preview: SchedulePreviewResponse | None
