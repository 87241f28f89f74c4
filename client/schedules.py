"""Calls about schedules."""

from datetime import datetime

from tenantcron.client.calls import LARGEST_PAGE, ApiCall, ListCall, body_of, path_of, query_of
from tenantcron.core.values import JsonObject
from tenantcron.service.responses.shapes import (
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    ScheduleResponse,
    TenantSchedulePage,
    TenantScheduleResponse,
    TriggeredResponse,
    WhyResponse,
)


def list_all(
    *, tenant: str | None = None, saga: str | None = None
) -> ListCall[TenantScheduleResponse]:
    """List schedules by tenant and name, with their next executions."""
    query = query_of(tenant=tenant, saga=saga)
    return ListCall(path_of("schedules"), "schedules", TenantScheduleResponse, query)


def page_of_all(
    *, tenant: str | None = None, after: str | None = None, limit: int = LARGEST_PAGE
) -> ApiCall[TenantSchedulePage]:
    """Get a page of `list_all` with the tenants whose schema cannot be read."""
    query = query_of(tenant=tenant, limit=limit, after=after)
    return ApiCall("GET", path_of("schedules"), TenantSchedulePage, query)


def list_of(tenant: str) -> ListCall[ScheduleResponse]:
    """List the schedules of a tenant by name."""
    path = path_of("tenants", tenant, "schedules")
    return ListCall(path, "schedules", ScheduleResponse)


def show(tenant: str, schedule: str) -> ApiCall[ScheduleDetailsResponse]:
    """Get a schedule with its state, last executions and last changes."""
    return ApiCall("GET", _path(tenant, schedule), ScheduleDetailsResponse)


def why(tenant: str, schedule: str) -> ApiCall[WhyResponse]:
    """Explain why a schedule did not run."""
    return ApiCall("GET", f"{_path(tenant, schedule)}/why", WhyResponse)


def pause(
    tenant: str,
    schedule: str,
    reason: str,
    *,
    until: datetime | None = None,
    cancel_pending: bool = False,
) -> ApiCall[PausedResponse]:
    """Pause a schedule."""
    body = body_of(reason=reason, until=until, cancel_pending=cancel_pending)
    return ApiCall("POST", f"{_path(tenant, schedule)}:pause", PausedResponse, body=body)


def resume(tenant: str, schedule: str, reason: str | None = None) -> ApiCall[ResumedResponse]:
    """Resume a schedule; occurrences of the pause are not fired."""
    path = f"{_path(tenant, schedule)}:resume"
    return ApiCall("POST", path, ResumedResponse, body=body_of(reason=reason))


def set_pause(
    tenant: str,
    schedule: str,
    *,
    reason: str | None = None,
    until: datetime | None = None,
    if_match: str | None = None,
) -> ApiCall[ScheduleDetailsResponse]:
    """Pause a schedule, or change the fields of its pause that are given."""
    body: JsonObject = {"paused": body_of(reason=reason, until=until)}
    headers = {} if if_match is None else {"If-Match": if_match}
    path = _path(tenant, schedule)
    return ApiCall("PATCH", path, ScheduleDetailsResponse, body=body, headers=headers)


def trigger(tenant: str, schedule: str, reason: str | None = None) -> ApiCall[TriggeredResponse]:
    """Run a schedule once, now."""
    path = f"{_path(tenant, schedule)}:trigger"
    return ApiCall("POST", path, TriggeredResponse, body=body_of(reason=reason))


def _path(tenant: str, schedule: str) -> str:
    return path_of("tenants", tenant, "schedules", schedule)
