"""Outcomes: what became of each tenant, and its schedules with their next executions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import MANIFESTS
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.reconciler.diff import Action
from tenantcron.reconciler.drift import Drift
from tenantcron.reconciler.plan import Plan
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.reconciler.state import LiveState
from tenantcron.schedules.definition import Definition
from tenantcron.schedules.pause import Pause, in_force
from tenantcron.schedules.upcoming import next_executions
from tenantcron.store.rows.schedule_cursors import CursorRow


class Status(StrEnum):
    """What became of one tenant."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """One tenant's result; without a plan it was refused before one could be made."""

    tenant: str | None
    file: Path | None
    status: Status
    plan: Plan | None = None
    refusal: RefusedError | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    # What an apply puts back, because somebody changed it by other means.
    drift: tuple[Drift, ...] = ()

    def count(self, action: Action) -> int:
        """Count the changes of one kind."""
        return self.plan.difference.count(action) if self.plan else 0

    @property
    def unchanged(self) -> int:
        """How many schedules need no change."""
        return self.plan.difference.unchanged if self.plan else 0


@dataclass(frozen=True, slots=True)
class Registered:
    """A schedule as it is once the plan is carried out, with its next executions."""

    definition: Definition
    # The pause that holds now.
    pause: Pause | None
    next_executions: tuple[datetime, ...]
    # Why it does not fire: its timetable cannot be read, or the scheduler has quarantined it.
    fault: str | None = None
    provider: str = MANIFESTS


def registered(plan: Plan, now: datetime) -> list[Registered]:
    """Return the schedules that hold once the plan is carried out."""
    return [_registered(one, plan.state, now) for one in plan.desired.definitions]


def live_schedules(state: LiveState, now: datetime) -> list[Registered]:
    """Return the schedules as they are."""
    return [_registered(one, state, now) for one in state.live]


def all_schedules(
    state: LiveState, provided: Iterable[CursorRow], now: datetime
) -> list[Registered]:
    """Return the schedules of a tenant by name, with those that no manifest declares."""
    found = [*live_schedules(state, now), *provided_schedules(provided, now)]
    return sorted(found, key=lambda schedule: schedule.definition.schedule_name)


def provided_schedules(cursors: Iterable[CursorRow], now: datetime) -> list[Registered]:
    """Return the schedules that no manifest declares, as their cursors have them."""
    return [_provided(cursor, now) for cursor in cursors]


def _provided(cursor: CursorRow, now: datetime) -> Registered:
    columns = (cursor.schedule_name, cursor.saga_name, cursor.cron_expr, cursor.timezone)
    schedule = Definition(*columns, cursor.enabled, {})
    pause = in_force(cursor.pause, now)
    if cursor.fault is not None:
        return Registered(schedule, pause, (), cursor.fault, cursor.provider)
    return replace(_with_next(schedule, pause, now), provider=cursor.provider)


def _registered(schedule: Definition, state: LiveState, now: datetime) -> Registered:
    name = schedule.schedule_name
    found = _with_next(schedule, in_force(state.pauses.get(name), now), now)
    if (fault := state.faults.get(name)) is not None:
        found = replace(found, next_executions=(), fault=fault)
    provider = state.providers.get(name)
    return found if provider is None else replace(found, provider=provider)


def _with_next(schedule: Definition, pause: Pause | None, now: datetime) -> Registered:
    try:
        return Registered(schedule, pause, _next(schedule, pause, now))
    except TenantcronError as error:
        return Registered(schedule, pause, (), fault=str(error))


def _next(schedule: Definition, pause: Pause | None, now: datetime) -> tuple[datetime, ...]:
    if not schedule.enabled:
        return ()
    return next_executions(schedule.cron_expr, schedule.timezone, now, pause)
