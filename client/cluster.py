"""Calls about the cluster: its health, its workers and its audit records."""

from datetime import datetime

from typing_extensions import TypedDict

from tenantcron.client.calls import ApiCall, ListCall, path_of, query_of
from tenantcron.service.responses.shapes import (
    ClusterAuditRecordResponse,
    HealthResponse,
    WorkerResponse,
)


class LivenessResponse(TypedDict):
    """Liveness of the server."""

    healthy: bool


def health() -> ApiCall[HealthResponse]:
    """Check the health of the cluster."""
    return ApiCall("GET", path_of("health"), HealthResponse)


def workers() -> ListCall[WorkerResponse]:
    """List the schedulers that run or were killed recently."""
    return ListCall(path_of("workers"), "workers", WorkerResponse)


def audit_records(
    *,
    entity_type: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ListCall[ClusterAuditRecordResponse]:
    """List the audit records of all tenants that the token may see, newest first."""
    query = query_of(entity_type=entity_type, actor=actor, since=since, until=until)
    path = path_of("audit-records")
    return ListCall(path, "audit_records", ClusterAuditRecordResponse, query)


def liveness() -> ApiCall[LivenessResponse]:
    """Check that the server responds; needs no token."""
    return ApiCall("GET", "/healthz", LivenessResponse)
