"""Schedules of a tenant: lists, single ones, why one did not run, and what operators do to them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    After,
    Limit,
    OptionalReason,
    PauseRequest,
    SchedulePath,
    TenantPath,
)
from tenantcron.api.pages import page, text_place
from tenantcron.api.replies import told
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, problems
from tenantcron.api.writes import Done, write
from tenantcron.core.names import NAME_PATTERN
from tenantcron.reconciler.outcome import Registered, live_schedules
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    existing_tenant,
    read_situation,
)
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.lookups import existing_schedule, seen_tenant, some_schedules, state_of
from tenantcron.service.responses.outcomes import schedule as registered_as_json
from tenantcron.service.responses.schedules import (
    paused_as_json,
    resumed_as_json,
    situation_as_json,
    triggered_as_json,
)
from tenantcron.service.responses.shapes import (
    PausedResponse,
    ResumedResponse,
    SchedulePage,
    SituationResponse,
    TriggeredResponse,
    WhyResponse,
)
from tenantcron.service.responses.why import why_as_json
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import schedule_cursors
from tenantcron.store.rows.tenant_schedules import SchedulesWanted

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
        faults = await schedule_cursors.faults(connection, [of])
    state = state_of(row, found, paused, faults)
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


def _name(one: Registered) -> list[str]:
    return [one.definition.schedule_name]


@router.get("/{schedule:word}", response_model=SituationResponse, responses=READ)
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


@router.get("/{schedule:word}/why", response_model=WhyResponse, responses=READ)
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
    response_model=PausedResponse,
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
    response_model=ResumedResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def resume(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: OptionalReason,
) -> Response:
    """Lift a pause; nothing is fired back."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> Done:
        resumed = await _operator(work, database).resume(ref, body.reason)
        return Done({**resumed_as_json(ref, resumed)})

    return await write(request, work, step)


@router.post(
    "/{schedule:word}:trigger",
    response_model=TriggeredResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def trigger(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: OptionalReason,
) -> Response:
    """Run a schedule once, now, beside its timetable."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> Done:
        made = await _operator(work, database).trigger(ref, body.reason)
        return Done({**triggered_as_json(ref, made)})

    return await write(request, work, step)


def _ref(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    return ScheduleRef(seen_tenant(work, tenant), schedule)


def _operator(work: Work, database: Database) -> Operator:
    return Operator(database, work.settings, work.who, bounds=work.bounds)
