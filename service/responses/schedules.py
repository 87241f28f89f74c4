"""A schedule with its state, and operations on it, as JSON; the keys are stable."""

from datetime import datetime

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import MANIFESTS
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.schedule_status import ScheduleStatus
from tenantcron.scheduler.operate.operator import Paused, Resumed, Triggered
from tenantcron.schedules.timetable import split_bounds
from tenantcron.service.responses.executions import as_json, iso
from tenantcron.service.responses.outcomes import pause_as_json
from tenantcron.service.responses.records import record_as_json
from tenantcron.service.responses.shapes import (
    CursorResponse,
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    TriggeredResponse,
)
from tenantcron.store.rows.schedule_cursors import CursorRow


def schedule_status_as_json(status: ScheduleStatus) -> ScheduleDetailsResponse:
    """Return a schedule; its first keys are those of `schedule list`."""
    cron_expr, timezone = status.timetable
    stored = split_bounds(cron_expr)
    times, fault = next_or_fault(status)
    return {
        "tenant": status.ref.tenant,
        "name": status.ref.schedule,
        "saga": status.saga,
        "cron": stored.expression,
        "starts": stored.starts,
        "ends": stored.ends,
        "timezone": timezone,
        "enabled": status.enabled,
        "paused": pause_as_json(status.pause),
        "next_executions": [time.isoformat() for time in times],
        "fault": fault,
        "provider": status.cursor.provider if status.cursor else MANIFESTS,
        "definition": status.definition,
        "cursor": _cursor(status.cursor),
        "executions": [as_json(row) for row in status.last],
        "changes": [record_as_json(row) for row in status.changes],
    }


def next_or_fault(status: ScheduleStatus) -> tuple[tuple[datetime, ...], str | None]:
    """Return the next executions, or the fault that prevents computing them."""
    fault = status.cursor.fault if status.cursor else None
    try:
        return status.next_executions(), fault
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


def triggered_as_json(
    ref: ScheduleRef, done: Triggered, *, scheduler_running: bool
) -> TriggeredResponse:
    """Return a manually triggered execution, and whether a scheduler will start it."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "execution": str(done.id),
        "scheduled_for": done.scheduled_for.isoformat(),
        "scheduler_running": scheduler_running,
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
