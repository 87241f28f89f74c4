"""Outcomes of plan and apply for programs; the keys are stable."""

from collections.abc import Sequence
from datetime import datetime

from tenantcron.reconciler.diff import Action, ScheduleChange
from tenantcron.reconciler.drift import Drift
from tenantcron.reconciler.outcome import ReconcileOutcome, Registered, Status, registered
from tenantcron.schedules.definition import Definition
from tenantcron.schedules.pause import Pause
from tenantcron.service.responses.diagnostics import as_json
from tenantcron.service.responses.shapes import (
    ChangeResponse,
    DefinitionResponse,
    DriftResponse,
    OutcomesAnswer,
    PauseResponse,
    ScheduleResponse,
    Summary,
    TenantAnswer,
    TouchResponse,
)
from tenantcron.service.responses.totals import total
from tenantcron.store.rows.audit_records import Touch


def answer(outcomes: Sequence[ReconcileOutcome], now: datetime) -> OutcomesAnswer:
    """Return the answer for a few tenants, which counts from the given time."""
    return {
        "at": now.isoformat(),
        "tenants": [tenant_answer(outcome, now) for outcome in outcomes],
        "summary": total(map(summary, outcomes)),
    }


def summary(outcome: ReconcileOutcome) -> Summary:
    """Return what one tenant adds to the totals."""
    return {
        "tenants": 1,
        "create": outcome.count(Action.CREATE),
        "update": outcome.count(Action.UPDATE),
        "delete": outcome.count(Action.DELETE),
        "unchanged": outcome.unchanged,
        "failed": int(outcome.status is Status.FAILED),
    }


def tenant_answer(outcome: ReconcileOutcome, now: datetime) -> TenantAnswer:
    """Return what became of one tenant."""
    plan, refusal = outcome.plan, outcome.refusal
    told: TenantAnswer = {
        "tenant": outcome.tenant,
        "file": outcome.file.as_posix() if outcome.file else None,
        "status": outcome.status.value,
        "manifest_version": _version(outcome),
        "revision": plan.state.revision if plan else None,
        "changes": [_change(change) for change in plan.difference.changes] if plan else [],
        "drift": [_drift(one) for one in outcome.drift],
        "schedules": [schedule(one) for one in registered(plan, now)] if plan else [],
        "diagnostics": [as_json(one) for one in outcome.diagnostics],
    }
    if refusal is not None:
        told["error"] = {"code": refusal.code, "message": refusal.message}
    return told


def _version(outcome: ReconcileOutcome) -> int | None:
    """Return the version that holds now: a plan has not made its own yet."""
    plan = outcome.plan
    if plan is None:
        return None
    return plan.version if outcome.status is Status.APPLIED else plan.state.number or None


def _change(change: ScheduleChange) -> ChangeResponse:
    return {
        "action": change.action.value,
        "schedule": change.schedule,
        "fields": list(change.fields),
        "before": _definition(change.before),
        "after": _definition(change.after),
    }


def _drift(one: Drift) -> DriftResponse:
    """From `applied` to what is live: the opposite direction of a change."""
    return {
        "schedule": one.change.schedule,
        "fields": list(one.change.fields),
        "applied": _definition(one.change.before),
        "live": _definition(one.change.after),
        "changed_by": _touch(one.touch),
    }


def _touch(touch: Touch | None) -> TouchResponse | None:
    if touch is None:
        return None
    return {"id": touch.by, "source": touch.source, "at": touch.at.isoformat()}


def _definition(definition: Definition | None) -> DefinitionResponse | None:
    if definition is None:
        return None
    return {
        "schedule_name": definition.schedule_name,
        "saga_name": definition.saga_name,
        "cron_expr": definition.cron_expr,
        "timezone": definition.timezone,
        "enabled": definition.enabled,
        "definition": definition.definition,
    }


def schedule(one: Registered) -> ScheduleResponse:
    """Return a registered schedule."""
    return {
        "name": one.definition.schedule_name,
        "saga": one.definition.saga_name,
        "cron": one.definition.cron_expr,
        "timezone": one.definition.timezone,
        "enabled": one.definition.enabled,
        "paused": pause_as_json(one.pause),
        "next_executions": [time.isoformat() for time in one.next_executions],
        "fault": one.fault,
        "provider": one.provider,
    }


def pause_as_json(pause: Pause | None) -> PauseResponse | None:
    """Return a pause."""
    if pause is None:
        return None
    until = pause.until.isoformat() if pause.until else None
    return {"at": pause.at.isoformat(), "by": pause.by, "reason": pause.reason, "until": until}
