"""Tenants as JSON; the keys are stable."""

from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.shapes import TenantResponse
from tenantcron.store.rows.tenants import TenantRow


def tenant_as_json(row: TenantRow) -> TenantResponse:
    """Return a tenant."""
    return {
        "tenant": row.id,
        "schema": row.schema_name,
        "schema_adopted": row.schema_adopted,
        "status": row.status.value,
        "status_reason": row.status_reason,
        "max_schedules": row.max_schedules,
        "max_concurrent": row.max_concurrent,
        "weight": row.weight,
        "labels": dict(row.labels),
        "sourced": row.sourced,
        "missing_since": iso(row.missing_since),
        "schedule_revision": row.schedule_revision,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }
