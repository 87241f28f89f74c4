"""Tasks as JSON; the keys are stable."""

from collections.abc import Sequence

from tenantcron.core.durations import format_duration
from tenantcron.core.names import TenantId
from tenantcron.schedules.settings import Priority
from tenantcron.schedules.task_request import TaskRequest, task_settings
from tenantcron.service.responses.executions import attempt_as_json, iso
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    TaskDetailsResponse,
    TaskResponse,
)
from tenantcron.store.rows.execution_history import AttemptRow
from tenantcron.store.rows.tasks import TaskRow
from tenantcron.store.steps.submit import Submitted

_PRIORITIES = tuple(Priority)


def submitted_as_json(
    tenant: TenantId, request: TaskRequest, submitted: Submitted
) -> SubmittedTaskResponse:
    """Return a task that was submitted."""
    return {
        "id": str(submitted.id),
        "tenant": tenant,
        "saga": request.saga or "",
        "state": submitted.state,
        "execute_at": submitted.execute_at.isoformat(),
        "existed": submitted.existed,
    }


def task_as_json(row: TaskRow) -> TaskResponse:
    """Return a task without its payload."""
    return {
        "id": str(row.id),
        "tenant": row.tenant_id,
        "saga": row.saga_name,
        "state": row.state.value,
        "execute_at": row.execute_at.isoformat(),
        "priority": _PRIORITIES[row.priority].value,
        "idempotency_key": row.idempotency_key,
        "submitted_at": row.submitted_at.isoformat(),
        "actor": {
            "id": row.actor_id,
            "type": row.actor_type,
            "source": row.actor_source,
            "authenticated": row.authenticated,
        },
        "reason_code": row.reason_code,
        "reason": row.reason,
        "attempt": row.attempt,
        "started_at": iso(row.started_at),
        "finished_at": iso(row.finished_at),
    }


def task_details_as_json(row: TaskRow, attempts: Sequence[AttemptRow]) -> TaskDetailsResponse:
    """Return a task with its payload, settings and attempts."""
    settings = task_settings(row.definition)
    target = (row.definition or {}).get("target")
    return {
        **task_as_json(row),
        "payload": row.payload,
        "target": target if isinstance(target, dict) else None,
        "timeout": format_duration(settings.timeout),
        "max_attempts": settings.retry.max_attempts,
        "owner": settings.owner,
        "attempts": [attempt_as_json(attempt) for attempt in attempts],
    }
