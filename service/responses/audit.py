"""The result of an audit as JSON; the keys are stable."""

from tenantcron.scheduler.inspect.audit import AuditReport
from tenantcron.scheduler.inspect.audit_findings import AuditFinding
from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.platform_shapes import AuditFindingResponse, AuditResponse


def audit_as_json(audited: AuditReport) -> AuditResponse:
    """Return the result of an audit."""
    return {
        "since": audited.since.isoformat(),
        "until": audited.until.isoformat(),
        "tenants": audited.tenants,
        "schedules": audited.schedules,
        "occurrences": audited.occurrences,
        "findings": [_finding(finding) for finding in audited.findings],
    }


def _finding(finding: AuditFinding) -> AuditFindingResponse:
    return {
        "code": finding.code.value,
        "tenant": finding.tenant,
        "schedule": finding.schedule,
        "since": iso(finding.since),
        "until": iso(finding.until),
        "count": finding.count,
        "message": finding.message,
        "hint": finding.hint,
    }
