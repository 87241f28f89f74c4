"""Outcomes of plan and apply for programs; the keys are stable."""

from collections.abc import Sequence
from datetime import datetime

from tenantcron.cli.formats.data import as_json
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.definition import Definition
from tenantcron.reconciler.diff import Action, Change
from tenantcron.reconciler.drift import Drift
from tenantcron.reconciler.outcome import Outcome, Registered, Status, registered
from tenantcron.reconciler.plan import Plan
from tenantcron.store.audit_records import Touch
from tenantcron.store.schedule_cursors import Pause


def answer(outcomes: Sequence[Outcome], now: datetime) -> JsonObject:
    """Return the whole answer."""
    return {"tenants": [_tenant(one, now) for one in outcomes], "summary": summary(outcomes)}


def summary(outcomes: Sequence[Outcome]) -> JsonObject:
    """Return the totals."""
    counts: JsonObject = {
        action.value: sum(one.count(action) for one in outcomes) for action in Action
    }
    return {
        "tenants": len(outcomes),
        **counts,
        "unchanged": sum(one.unchanged for one in outcomes),
        "failed": sum(one.status is Status.FAILED for one in outcomes),
    }


def _tenant(outcome: Outcome, now: datetime) -> JsonObject:
    plan, refusal = outcome.plan, outcome.refusal
    told: JsonObject = {
        "tenant": outcome.tenant,
        "file": outcome.file.as_posix() if outcome.file else None,
        "status": outcome.status.value,
        "manifest_version": _version(outcome),
        "changes": [_change(change) for change in plan.difference.changes] if plan else [],
        "drift": [_drift(one) for one in outcome.drift],
        "schedules": [schedule(one) for one in registered(plan, now)] if plan else [],
        "diagnostics": [dict(as_json(one)) for one in outcome.diagnostics],
    }
    if refusal is not None:
        told["error"] = {"code": refusal.code, "message": refusal.message}
    return told


def _version(outcome: Outcome) -> int | None:
    """Return the version that holds now: a plan has not made its own yet."""
    plan: Plan | None = outcome.plan
    if plan is None:
        return None
    return plan.version if outcome.status is Status.APPLIED else plan.state.number or None


def _change(change: Change) -> JsonObject:
    return {
        "action": change.action.value,
        "schedule": change.schedule,
        "fields": list(change.fields),
        "before": _definition(change.before),
        "after": _definition(change.after),
    }


def _drift(one: Drift) -> JsonObject:
    """From `applied` to what is live: the opposite direction of a change."""
    return {
        "schedule": one.change.schedule,
        "fields": list(one.change.fields),
        "applied": _definition(one.change.before),
        "live": _definition(one.change.after),
        "changed_by": _touch(one.touch),
    }


def _touch(touch: Touch | None) -> JsonObject | None:
    if touch is None:
        return None
    return {"id": touch.by, "source": touch.source, "at": touch.at.isoformat()}


def _definition(definition: Definition | None) -> JsonObject | None:
    return None if definition is None else definition.as_json()


def schedule(one: Registered) -> JsonObject:
    """Return a registered schedule."""
    return {
        "name": one.definition.schedule_name,
        "saga": one.definition.saga_name,
        "cron": one.definition.cron_expr,
        "timezone": one.definition.timezone,
        "enabled": one.definition.enabled,
        "paused": _pause(one.pause),
        "next_executions": [time.isoformat() for time in one.next_executions],
        "fault": one.fault,
    }


def _pause(pause: Pause | None) -> JsonObject | None:
    if pause is None:
        return None
    until = pause.until.isoformat() if pause.until else None
    return {"at": pause.at.isoformat(), "by": pause.by, "reason": pause.reason, "until": until}
