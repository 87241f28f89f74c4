"""Outcomes of tenants, and their schedules with the next executions."""

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
    """The status of a tenant after a plan or an apply."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """The outcome of a tenant; without a plan, it was refused before planning."""

    tenant: str | None
    file: Path | None
    status: Status
    plan: Plan | None = None
    refusal: RefusedError | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    # Manual changes that the apply reverts.
    drift: tuple[Drift, ...] = ()

    def count(self, action: Action) -> int:
        """Count the changes of a type."""
        return self.plan.difference.count(action) if self.plan else 0

    @property
    def unchanged(self) -> int:
        """The number of unchanged schedules."""
        return self.plan.difference.unchanged if self.plan else 0


@dataclass(frozen=True, slots=True)
class Registered:
    """A schedule with its next executions; for a plan, as it is after the apply."""

    definition: Definition
    # The pause that is in force now.
    pause: Pause | None
    next_executions: tuple[datetime, ...]
    # Why it does not fire: its timetable cannot be read, or the scheduler has quarantined it.
    fault: str | None = None
    provider: str = MANIFESTS


def registered(plan: Plan, now: datetime) -> list[Registered]:
    """Return the schedules of a tenant after the plan is applied."""
    return [_registered(definition, plan.state, now) for definition in plan.desired.definitions]


def live_schedules(state: LiveState, now: datetime) -> list[Registered]:
    """Return the live schedules of a tenant."""
    return [_registered(definition, state, now) for definition in state.live]


def all_schedules(
    state: LiveState, provided: Iterable[CursorRow], now: datetime
) -> list[Registered]:
    """Return all schedules of a tenant ordered by name, including those of other providers."""
    found = [*live_schedules(state, now), *provided_schedules(provided, now)]
    return sorted(found, key=lambda schedule: schedule.definition.schedule_name)


def provided_schedules(cursors: Iterable[CursorRow], now: datetime) -> list[Registered]:
    """Return the schedules that no manifest declares, from their cursors."""
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
