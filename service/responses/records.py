"""Manifest versions and audit records as JSON; the keys are stable."""

from collections.abc import Mapping

from tenantcron.service.responses.shapes import (
    AuditRecordResponse,
    ClusterAuditRecordResponse,
    ManifestVersionDetailsResponse,
    ManifestVersionResponse,
)
from tenantcron.store.rows.audit_records import AuditRow
from tenantcron.store.rows.cluster_records import ClusterRecord
from tenantcron.store.rows.manifest_versions import VersionRow


def version_as_json(row: VersionRow) -> ManifestVersionResponse:
    """Return a version of a manifest."""
    return {
        "tenant": row.tenant_id,
        "version": row.version,
        "checksum": row.checksum,
        "applied_by": row.applied_by,
        "applied_at": row.applied_at.isoformat(),
        "source_ref": row.source_ref,
    }


def document_as_json(
    row: VersionRow, document: Mapping[str, object]
) -> ManifestVersionDetailsResponse:
    """Return a version with its schedules."""
    return {**version_as_json(row), "document": document}


def cluster_record_as_json(record: ClusterRecord) -> ClusterAuditRecordResponse:
    """Return an audit record with its tenant."""
    return {"tenant": record.tenant, **record_as_json(record.row)}


def record_as_json(row: AuditRow) -> AuditRecordResponse:
    """Return an audit record."""
    return {
        "entity_type": row.entity_type,
        "entity_id": row.entity_id,
        "operation": row.operation,
        "changed_at": row.changed_at.isoformat(),
        "changed_by": {
            "id": row.changed_by,
            "type": row.actor_type,
            "source": row.actor_source,
            "authenticated": row.authenticated,
        },
        "correlation_id": None if row.correlation_id is None else str(row.correlation_id),
        "before": row.before,
        "after": row.after,
    }
