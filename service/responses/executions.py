"""Executions as JSON; the keys are stable."""

from datetime import datetime

from tenantcron.scheduler.operate.execution_lookup import ExecutionDetails
from tenantcron.service.responses.shapes import (
    AttemptResponse,
    ExecutionDetailsResponse,
    ExecutionLogResponse,
    ExecutionResponse,
    RunningLogResponse,
)
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow
from tenantcron.store.rows.live_logs import RunningLog
from tenantcron.store.steps.suspects import kills


def as_json(row: ExecutionRow) -> ExecutionResponse:
    """Return an execution."""
    return {
        "id": str(row.id),
        "tenant": row.tenant_id,
        "schedule": row.schedule_name,
        "saga": row.saga_name,
        "scheduled_for": row.scheduled_for.isoformat(),
        "state": row.state.value,
        "reason_code": row.reason_code,
        "reason": row.reason,
        "attempt": row.attempt,
        "attempts_allowed": row.attempts_allowed,
        "losses": row.losses,
        "suspect": row.suspicion > 0,
        "blamed": kills(row.suspicion),
        "not_before": row.not_before.isoformat(),
        "start_deadline": iso(row.start_deadline),
        "created_at": row.created_at.isoformat(),
        "started_at": iso(row.started_at),
        "finished_at": iso(row.finished_at),
        "covers_from": iso(row.covers_from),
        "missed_count": row.missed_count,
        "worker": row.worker_id,
        "lease_until": iso(row.lease_until),
        "handed_over_at": iso(row.handed_over_at) if row.is_remote else None,
        "heartbeat_at": iso(row.heartbeat_at) if row.is_remote else None,
        "attempt_deadline": iso(row.attempt_deadline) if row.is_remote else None,
        "progress": row.progress if row.is_remote else None,
        "progress_text": row.progress_text if row.is_remote else None,
        "cancel_requested_at": iso(row.cancel_requested_at),
        "cancel_reason": row.cancel_reason,
        "actor": {
            "id": row.actor_id,
            "type": row.actor_type,
            "source": row.actor_source,
            # An execution is attributed to its actor, which no token has authenticated.
            "authenticated": False,
        },
        "correlation_id": str(row.id),
    }


def details_as_json(details: ExecutionDetails) -> ExecutionDetailsResponse:
    """Return an execution with its attempts."""
    attempts = [attempt_as_json(attempt) for attempt in details.attempts]
    running_log = _running_log(details.running_log)
    return {**as_json(details.execution), "attempts": attempts, "running_log": running_log}


def log_as_json(details: ExecutionDetails) -> ExecutionLogResponse:
    """Return the stored logs of an execution's attempts."""
    row = details.execution
    return {
        "execution": str(row.id),
        "tenant": row.tenant_id,
        "schedule": row.schedule_name,
        "state": row.state.value,
        "attempts": [
            {
                "attempt": attempt.attempt,
                "outcome": attempt.outcome,
                "worker": attempt.worker_id,
                "started_at": attempt.started_at.isoformat(),
                "finished_at": attempt.finished_at.isoformat(),
                "log": attempt.log,
                "error": attempt.error,
            }
            for attempt in details.attempts
        ],
        "running_log": _running_log(details.running_log),
    }


def _running_log(found: RunningLog | None) -> RunningLogResponse | None:
    if found is None:
        return None
    return {"attempt": found.attempt, "position": found.position, "log": found.lines}


def attempt_as_json(attempt: AttemptRow) -> AttemptResponse:
    """Return an attempt."""
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
    """Return a time in ISO 8601, or None."""
    return None if moment is None else moment.isoformat()
