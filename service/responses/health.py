"""The health of the cluster and its workers as JSON; the keys are stable."""

from collections.abc import Sequence

from tenantcron.scheduler.inspect.cluster_status import ClusterStatus
from tenantcron.scheduler.inspect.findings import Finding
from tenantcron.service.responses.shapes import (
    HealthFindingResponse,
    HealthResponse,
    ReplicaResponse,
    WorkerResponse,
)
from tenantcron.store.rows.workers import WorkerRow


def health_as_json(status: ClusterStatus, findings: Sequence[Finding]) -> HealthResponse:
    """Return the health of the cluster."""
    return {
        "healthy": not findings,
        "findings": [finding_as_json(finding) for finding in findings],
        "replicas": [_replica(replica) for replica in status.replicas],
        "running": status.running,
        "max_concurrent": status.limits.overall,
        "waiting": status.queue.number,
        "lag_seconds": status.lag.total_seconds(),
    }


def finding_as_json(finding: Finding) -> HealthFindingResponse:
    """Return a finding."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "subjects": list(finding.subjects),
        "count": finding.count,
    }


def worker_as_json(worker: WorkerRow, *, alive: bool) -> WorkerResponse:
    """Return a worker, with what it can run and whether it has sent a heartbeat recently."""
    return {**_replica(worker), "alive": alive, "capabilities": worker.capabilities}


def _replica(worker: WorkerRow) -> ReplicaResponse:
    return {
        "id": worker.id,
        "service": worker.service,
        "started_at": worker.started_at.isoformat(),
        "seen_at": worker.seen_at.isoformat(),
        "running": worker.running,
        "abandoned": worker.abandoned,
        "draining": worker.draining,
    }
