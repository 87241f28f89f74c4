"""Results of plan and apply as JSON; the keys are stable."""

from collections.abc import Sequence
from datetime import datetime

from tenantcron.reconciler.diff import Action, ScheduleChange
from tenantcron.reconciler.drift import Drift
from tenantcron.reconciler.outcome import ReconcileOutcome, Registered, Status, registered
from tenantcron.reconciler.plan import Plan
from tenantcron.schedules.definition import Definition
from tenantcron.schedules.pause import Pause
from tenantcron.schedules.timetable import split_bounds
from tenantcron.service.responses.diagnostics import as_json
from tenantcron.service.responses.shapes import (
    ChangeResponse,
    DefinitionResponse,
    DriftResponse,
    LastChangeResponse,
    ManifestResultResponse,
    PauseResponse,
    PolicyResponse,
    ScheduleResponse,
    Summary,
    TenantResultResponse,
)
from tenantcron.service.responses.totals import total
from tenantcron.store.rows.audit_records import Touch


def answer(
    outcomes: Sequence[ReconcileOutcome], now: datetime, policy: PolicyResponse
) -> ManifestResultResponse:
    """Return the response for some tenants; next executions are computed from `now`."""
    return {
        "at": now.isoformat(),
        "policies": [policy],
        "tenants": [tenant_answer(outcome, now) for outcome in outcomes],
        "summary": total(map(summary, outcomes)),
    }


def summary(outcome: ReconcileOutcome) -> Summary:
    """Return the summary of a tenant."""
    return {
        "tenants": 1,
        "create": outcome.count(Action.CREATE),
        "update": outcome.count(Action.UPDATE),
        "delete": outcome.count(Action.DELETE),
        "unchanged": outcome.unchanged,
        "failed": int(outcome.status is Status.FAILED),
    }


def tenant_answer(outcome: ReconcileOutcome, now: datetime) -> TenantResultResponse:
    """Return the result of a tenant."""
    plan, refusal = outcome.plan, outcome.refusal
    response: TenantResultResponse = {
        "tenant": outcome.tenant,
        "file": outcome.file.as_posix() if outcome.file else None,
        "status": outcome.status.value,
        "manifest_version": _version(outcome),
        "revision": plan.state.revision if plan else None,
        "changes": _changes(plan) if plan else [],
        "drift": [_drift(drift) for drift in outcome.drift],
        "schedules": [schedule(found) for found in registered(plan, now)] if plan else [],
        "diagnostics": [as_json(diagnostic) for diagnostic in outcome.diagnostics],
    }
    if refusal is not None:
        response["error"] = {"code": refusal.code, "message": refusal.message}
    return response


def _version(outcome: ReconcileOutcome) -> int | None:
    """Return the current version: a plan has not created its version yet."""
    plan = outcome.plan
    if plan is None:
        return None
    return plan.version if outcome.status is Status.APPLIED else plan.state.number or None


def _changes(plan: Plan) -> list[ChangeResponse]:
    forms = plan.desired.forms
    return [_change(change, forms.get(change.schedule)) for change in plan.difference.changes]


def _change(change: ScheduleChange, form: str | None) -> ChangeResponse:
    return {
        "action": change.action.value,
        "schedule": change.schedule,
        "fields": list(change.fields),
        "before": _definition(change.before),
        "after": _definition(change.after),
        "form": form,
    }


def _drift(drift: Drift) -> DriftResponse:
    """Return a drift, from `applied` to `live`: the opposite direction of a change."""
    return {
        "schedule": drift.change.schedule,
        "fields": list(drift.change.fields),
        "applied": _definition(drift.change.before),
        "live": _definition(drift.change.after),
        "changed_by": _touch(drift.touch),
    }


def _touch(touch: Touch | None) -> LastChangeResponse | None:
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


def schedule(found: Registered) -> ScheduleResponse:
    """Return a schedule with its next executions."""
    stored = split_bounds(found.definition.cron_expr)
    return {
        "name": found.definition.schedule_name,
        "saga": found.definition.saga_name,
        "cron": stored.expression,
        "starts": stored.starts,
        "ends": stored.ends,
        "timezone": found.definition.timezone,
        "enabled": found.definition.enabled,
        "paused": pause_as_json(found.pause),
        "next_executions": [time.isoformat() for time in found.next_executions],
        "fault": found.fault,
        "provider": found.provider,
    }


def pause_as_json(pause: Pause | None) -> PauseResponse | None:
    """Return a pause."""
    if pause is None:
        return None
    until = pause.until.isoformat() if pause.until else None
    return {"at": pause.at.isoformat(), "by": pause.by, "reason": pause.reason, "until": until}
