"""Calls about tenants and their audit records."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenantcron.client.calls import ApiCall, ListCall, body_of, path_of, query_of
from tenantcron.core.values import JsonObject
from tenantcron.service.responses.shapes import (
    AuditRecordResponse,
    DeprovisionedResponse,
    TenantDetailsResponse,
    TenantResponse,
)


def list_all(*, labels: Sequence[str] = ()) -> ListCall[TenantResponse]:
    """List tenants by id; a label is `key` or `key=value`."""
    return ListCall(path_of("tenants"), "tenants", TenantResponse, query_of(label=labels))


def show(tenant: str) -> ApiCall[TenantDetailsResponse]:
    """Get a tenant with its identities."""
    return ApiCall("GET", path_of("tenants", tenant), TenantDetailsResponse)


def create(
    tenant: str,
    *,
    limits: Mapping[str, int | None] | None = None,
    quotas: Mapping[str, int | None] | None = None,
    labels: Mapping[str, str] | None = None,
    schema: str | None = None,
) -> ApiCall[TenantResponse]:
    """Create a tenant, with a new schema or an adopted one."""
    body: JsonObject = {**body_of(tenant=tenant, schema=schema), **(limits or {})}
    if quotas:
        body["quotas"] = {**quotas}
    if labels:
        body["labels"] = {**labels}
    return ApiCall("POST", path_of("tenants"), TenantResponse, body=body)


def update(
    tenant: str,
    *,
    limits: Mapping[str, int | None] | None = None,
    quotas: Mapping[str, int | None] | None = None,
    labels: Mapping[str, str | None] | None = None,
) -> ApiCall[TenantResponse]:
    """Set limits, quotas and labels; null restores a default and removes a label."""
    body: JsonObject = {**(limits or {})}
    if quotas:
        body["quotas"] = {**quotas}
    if labels:
        body["labels"] = {**labels}
    return ApiCall("PATCH", path_of("tenants", tenant), TenantResponse, body=body)


def suspend(tenant: str, reason: str) -> ApiCall[TenantResponse]:
    """Suspend a tenant: its schedules start nothing."""
    return ApiCall("POST", _action(tenant, "suspend"), TenantResponse, body=body_of(reason=reason))


def resume(tenant: str, reason: str | None = None) -> ApiCall[TenantResponse]:
    """Resume a suspended tenant."""
    return ApiCall("POST", _action(tenant, "resume"), TenantResponse, body=body_of(reason=reason))


def deprovision(
    tenant: str, reason: str, *, drop_schema: bool = False
) -> ApiCall[DeprovisionedResponse]:
    """Deprovision a tenant; `drop_schema` drops its tables."""
    confirm = tenant if drop_schema else None
    body = body_of(reason=reason, drop_schema=drop_schema, confirm=confirm)
    return ApiCall("POST", _action(tenant, "deprovision"), DeprovisionedResponse, body=body)


def audit_records(
    tenant: str,
    *,
    schedule: str | None = None,
    entity_type: str | None = None,
    entity_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ListCall[AuditRecordResponse]:
    """List the audit records of a tenant, newest first."""
    query = query_of(
        schedule=schedule, entity_type=entity_type, entity_id=entity_id, since=since, until=until
    )
    path = path_of("tenants", tenant, "audit-records")
    return ListCall(path, "audit_records", AuditRecordResponse, query)


def _action(tenant: str, action: str) -> str:
    return path_of("tenants", f"{tenant}:{action}")
