"""Tenants as JSON; the keys are stable."""

from collections.abc import Sequence

from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.shapes import (
    IdentityResponse,
    QuotaResponse,
    TenantDetailsResponse,
    TenantResponse,
)
from tenantcron.store.rows.identities import IdentityRow
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
        "quotas": dict(row.quotas),
        "labels": dict(row.labels),
        "sourced": row.sourced,
        "missing_since": iso(row.missing_since),
        "schedule_revision": row.schedule_revision,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def tenant_details_as_json(
    row: TenantRow, identities: Sequence[IdentityRow], declared: DeclaredQuotas
) -> TenantDetailsResponse:
    """Return a tenant with its identities and its quotas."""
    shown: list[IdentityResponse] = [
        {"id": identity.id, "role": identity.role, "status": identity.status.value}
        for identity in identities
    ]
    quotas: dict[str, QuotaResponse] = {
        name: {"value": quota.value, "source": quota.source}
        for name, quota in declared.of_tenant(row.id, row.quotas).items()
    }
    return {**tenant_as_json(row), "identities": shown, "effective_quotas": quotas}
