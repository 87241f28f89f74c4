"""A schedule with its state, and operations on it, as JSON; the keys are stable."""

from datetime import datetime

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import MANIFESTS
from tenantcron.scheduler.inspect.schedule_status import ScheduleRef, Situation
from tenantcron.scheduler.operate.operator import Paused, Resumed, Triggered
from tenantcron.service.responses.executions import as_json, iso
from tenantcron.service.responses.outcomes import pause_as_json
from tenantcron.service.responses.records import record_as_json
from tenantcron.service.responses.shapes import (
    CursorResponse,
    PausedResponse,
    ResumedResponse,
    SituationResponse,
    TriggeredResponse,
)
from tenantcron.store.rows.schedule_cursors import CursorRow


def situation_as_json(situation: Situation) -> SituationResponse:
    """Return a schedule; its first keys are those of `schedule list`."""
    cron, timezone = situation.timetable
    times, fault = next_or_fault(situation)
    return {
        "tenant": situation.ref.tenant,
        "name": situation.ref.schedule,
        "saga": situation.saga,
        "cron": cron,
        "timezone": timezone,
        "enabled": situation.enabled,
        "paused": pause_as_json(situation.pause),
        "next_executions": [time.isoformat() for time in times],
        "fault": fault,
        "provider": situation.cursor.provider if situation.cursor else MANIFESTS,
        "definition": situation.definition,
        "cursor": _cursor(situation.cursor),
        "executions": [as_json(row) for row in situation.last],
        "changes": [record_as_json(row) for row in situation.changes],
    }


def next_or_fault(situation: Situation) -> tuple[tuple[datetime, ...], str | None]:
    """Return the next executions, or the fault that prevents computing them."""
    fault = situation.cursor.fault if situation.cursor else None
    try:
        return situation.next_executions(), fault
    except TenantcronError as error:
        return (), fault or str(error)


def paused_as_json(ref: ScheduleRef, done: Paused) -> PausedResponse:
    """Return the result of a pause."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "paused": pause_as_json(done.cursor.pause),
        "ended": done.ended,
        "pending": done.pending,
    }


def resumed_as_json(ref: ScheduleRef, done: Resumed) -> ResumedResponse:
    """Return the result of a resume."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "paused": None,
        "passed_over": done.skipped_occurrences,
        "next_run_at": iso(done.cursor.next_run_at),
    }


def triggered_as_json(ref: ScheduleRef, done: Triggered) -> TriggeredResponse:
    """Return a manually triggered execution."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "execution": str(done.id),
        "scheduled_for": done.scheduled_for.isoformat(),
    }


def _cursor(cursor: CursorRow | None) -> CursorResponse | None:
    if cursor is None:
        return None
    return {
        "schedule_id": str(cursor.schedule_id),
        "provider": cursor.provider,
        "effective_from": cursor.effective_from.isoformat(),
        "next_run_at": iso(cursor.next_run_at),
        "last_run_at": iso(cursor.last_run_at),
        "consecutive_failures": cursor.consecutive_failures,
        "fault": cursor.fault,
    }
