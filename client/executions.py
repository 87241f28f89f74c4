"""Calls about executions."""

from collections.abc import Sequence
from datetime import datetime

from tenantcron.client.calls import ApiCall, ListCall, body_of, path_of, query_of
from tenantcron.service.responses.shapes import (
    ExecutionDetailsResponse,
    ExecutionLogResponse,
    ExecutionResponse,
)


def list_all(
    *,
    tenant: str | None = None,
    schedule: str | None = None,
    states: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    id_prefix: str | None = None,
    saga: str | None = None,
    error: str | None = None,
) -> ListCall[ExecutionResponse]:
    """List executions, newest first; `error` is a part of the reason."""
    query = query_of(
        tenant=tenant,
        schedule=schedule,
        state=states,
        since=since,
        until=until,
        id=id_prefix,
        saga=saga,
        error=error,
    )
    return ListCall(path_of("executions"), "executions", ExecutionResponse, query)


def show(execution: str) -> ApiCall[ExecutionDetailsResponse]:
    """Get an execution with its attempts."""
    return ApiCall("GET", path_of("executions", execution), ExecutionDetailsResponse)


def log(execution: str) -> ApiCall[ExecutionLogResponse]:
    """Get the stored logs of the attempts of an execution."""
    return ApiCall("GET", path_of("executions", execution, "log"), ExecutionLogResponse)


def retry(execution: str) -> ApiCall[ExecutionResponse]:
    """Retry a dead, cancelled, skipped or missed execution."""
    return ApiCall("POST", path_of("executions", f"{execution}:retry"), ExecutionResponse)


def cancel(execution: str, reason: str | None = None) -> ApiCall[ExecutionResponse]:
    """Cancel a pending execution; request a running one to stop."""
    path = path_of("executions", f"{execution}:cancel")
    return ApiCall("POST", path, ExecutionResponse, body=body_of(reason=reason))
