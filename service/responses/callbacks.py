"""Responses to reports of remote workers; the keys are stable."""

from typing_extensions import TypedDict


class HeartbeatResponse(TypedDict):
    """Whether the worker has to stop, and its next times."""

    cancel: bool
    reason: str | None
    deadline: str | None
    heartbeat_seconds: float | None


class ReportResponse(TypedDict):
    """The recorded outcome of the attempt, and the state of its execution."""

    execution: str
    attempt: int
    outcome: str
    state: str
    # Whether an earlier report recorded it.
    repeated: bool
