"""Schedules of a tenant: lists, single ones, why one did not run, and what operators do to them."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.answers.outcomes import schedule as registered_as_json
from tenantcron.answers.schedules import (
    paused_as_json,
    resumed_as_json,
    situation_as_json,
    triggered_as_json,
)
from tenantcron.answers.shapes import (
    SchedulePage,
    ToldPaused,
    ToldResumed,
    ToldSituation,
    ToldTriggered,
    ToldWhy,
)
from tenantcron.answers.why import why_as_json
from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    After,
    Limit,
    PauseRequest,
    PerhapsBecause,
    SchedulePath,
    TenantPath,
)
from tenantcron.api.pages import page, text_place
from tenantcron.api.replies import told
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, problems
from tenantcron.api.service import Work
from tenantcron.api.tenants import seen_tenant
from tenantcron.api.writes import Done, write
from tenantcron.core.names import NAME_PATTERN
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.definition import definitions
from tenantcron.reconciler.outcome import Registered, live_schedules
from tenantcron.reconciler.state import TenantState
from tenantcron.scheduler.operate import Operator
from tenantcron.scheduler.situation import (
    ScheduleRef,
    existing_tenant,
    read_situation,
    require_schedule,
)
from tenantcron.scheduler.why import explain
from tenantcron.schedules.pause import Pause
from tenantcron.store import schedule_cursors, tenant_schedules
from tenantcron.store.engine import Database
from tenantcron.store.tenant_schedules import ListedSchedule, SchedulesWanted
from tenantcron.store.tenants import TenantRow, TenantStatus
from tenantcron.store.times import database_time

router = APIRouter(prefix="/tenants/{tenant:word}/schedules", tags=["schedules"])

_OPERATED = problems(404, 409)


@router.get("", response_model=SchedulePage, responses=READ)
async def list_schedules(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    saga: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="that run this saga")
    ] = None,
    enabled: Annotated[bool | None, Query(description="whether their timetable counts")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the schedules of a tenant by name, with their next executions."""
    of, place, wanted = seen_tenant(work, tenant), text_place(after), SchedulesWanted(saga, enabled)
    async with work.reading.transaction() as connection:
        row = await existing_tenant(connection, of)
        now = await database_time(connection)
        found = await some_schedules(connection, row, wanted, place, limit + 1)
        paused = await schedule_cursors.pauses(connection, [of])
    state = state_of(row, found, paused)
    return told(
        request,
        page(
            "schedules",
            live_schedules(state, now),
            limit,
            tell=registered_as_json,
            place=_name,
        ),
    )


async def some_schedules(
    connection: AsyncConnection,
    row: TenantRow,
    wanted: SchedulesWanted,
    after: str | None,
    limit: int,
) -> list[ListedSchedule]:
    """Return schedules of a tenant; a deprovisioned one may have lost its schema."""
    if row.status is TenantStatus.DEPROVISIONED:
        return []
    return await tenant_schedules.page(connection, row, wanted, after=after, limit=limit)


def state_of(
    row: TenantRow,
    found: Sequence[ListedSchedule],
    paused: dict[UUID, Pause],
) -> TenantState:
    """Return a tenant's schedules as the reconciler tells them."""
    live = definitions({"schedules": [listed.columns for listed in found]})
    named = list(zip(found, live, strict=True))
    pauses = {of.schedule_name: paused[listed.id] for listed, of in named if listed.id in paused}
    providers = {of.schedule_name: listed.provider for listed, of in named}
    return TenantState(row, live=live, pauses=pauses, providers=providers)


def _name(one: Registered) -> list[str]:
    return [one.definition.schedule_name]


@router.get("/{schedule:word}", response_model=ToldSituation, responses=READ)
async def show_schedule(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    schedule: SchedulePath,
) -> Response:
    """Show one schedule: its timetable, where it stands, how it went."""
    ref = _ref(work, tenant, schedule)
    async with work.reading.transaction() as connection:
        situation = await read_situation(connection, ref, work.settings.lease, None)
    return told(request, {**situation_as_json(situation)})


@router.get("/{schedule:word}/why", response_model=ToldWhy, responses=READ)
async def why(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    schedule: SchedulePath,
) -> Response:
    """Tell why a schedule did not run, or not yet."""
    ref = _ref(work, tenant, schedule)
    async with work.reading.transaction() as connection:
        situation = await read_situation(connection, ref, work.settings.lease, None)
    return told(request, {**why_as_json(ref, explain(situation))})


@router.post(
    "/{schedule:word}:pause",
    response_model=ToldPaused,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def pause(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: PauseRequest,
) -> Response:
    """Stop a schedule from firing; pending executions continue unless `cancel_pending`."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> Done:
        paused = await _operator(work, database).pause(
            ref, body.reason, body.until, cancel_pending=body.cancel_pending
        )
        return Done({**paused_as_json(ref, paused)})

    return await write(request, work, step)


@router.post(
    "/{schedule:word}:resume",
    response_model=ToldResumed,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def resume(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: PerhapsBecause,
) -> Response:
    """Lift a pause; nothing is fired back."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> Done:
        resumed = await _operator(work, database).resume(ref, body.reason)
        return Done({**resumed_as_json(ref, resumed)})

    return await write(request, work, step)


@router.post(
    "/{schedule:word}:trigger",
    response_model=ToldTriggered,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def trigger(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: PerhapsBecause,
) -> Response:
    """Run a schedule once, now, beside its timetable."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> Done:
        made = await _operator(work, database).trigger(ref, body.reason)
        return Done({**triggered_as_json(ref, made)})

    return await write(request, work, step)


def _ref(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    return ScheduleRef(seen_tenant(work, tenant), schedule)


async def existing_schedule(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    """Return a schedule that the caller sees; nothing else of a request is acted upon.

    The cursors are brought in line here, before the transaction of the write begins: that one then
    finds nothing to follow, and holds no locks on other tenants.
    """
    ref = _ref(work, tenant, schedule)
    async with work.reading.transaction() as connection:
        await require_schedule(connection, ref)
    await refresh(work.writing, TenantScheduleProvider(work.bounds))
    return ref


def _operator(work: Work, database: Database) -> Operator:
    return Operator(database, work.settings, work.who, bounds=work.bounds)
