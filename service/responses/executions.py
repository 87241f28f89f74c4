"""Executions for programs; the keys are stable."""

from datetime import datetime

from tenantcron.scheduler.operate.execution_lookup import ExecutionDetails
from tenantcron.service.responses.shapes import AttemptResponse, ExecutionResponse, StoryResponse
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow


def as_json(row: ExecutionRow) -> ExecutionResponse:
    """Return one execution."""
    return {
        "id": str(row.id),
        "tenant": row.tenant_id,
        "schedule": row.schedule_name,
        "saga": row.saga_name,
        "scheduled_for": row.scheduled_for.isoformat(),
        "state": row.state.value,
        "reason": row.reason,
        "attempt": row.attempt,
        "attempts_allowed": row.attempts_allowed,
        "losses": row.losses,
        "suspect": row.suspicion > 0,
        "not_before": row.not_before.isoformat(),
        "start_deadline": iso(row.start_deadline),
        "created_at": row.created_at.isoformat(),
        "started_at": iso(row.started_at),
        "finished_at": iso(row.finished_at),
        "covers_from": iso(row.covers_from),
        "missed_count": row.missed_count,
        "worker": row.worker_id,
        "lease_until": iso(row.lease_until),
        "cancel_requested_at": iso(row.cancel_requested_at),
        "cancel_reason": row.cancel_reason,
        "actor": {
            "id": row.actor_id,
            "type": row.actor_type,
            "source": row.actor_source,
            # Executions are attributed; only a token would prove anything.
            "authenticated": False,
        },
        "correlation_id": str(row.id),
    }


def story_as_json(details: ExecutionDetails) -> StoryResponse:
    """Return an execution with its attempts."""
    return {**as_json(details.execution), "attempts": [_attempt(one) for one in details.attempts]}


def _attempt(attempt: AttemptRow) -> AttemptResponse:
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "worker": attempt.worker_id,
        "started_at": attempt.started_at.isoformat(),
        "finished_at": attempt.finished_at.isoformat(),
        "error": attempt.error,
        "http_status": attempt.http_status,
        "answer": attempt.answer,
        "log": attempt.log,
        "result": attempt.result,
    }


def iso(moment: datetime | None) -> str | None:
    """Return a time, or nothing where there is none."""
    return None if moment is None else moment.isoformat()
