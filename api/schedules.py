"""Schedules of a tenant: list, show, why, pause, resume and trigger."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    NO_REASON,
    After,
    Limit,
    OptionalReason,
    PauseRequest,
    SchedulePath,
    TenantPath,
)
from tenantcron.api.pages import page, text_position
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import NAME_PATTERN
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.reconciler.outcome import Registered, live_schedules
from tenantcron.scheduler.inspect.schedule_status import (
    existing_tenant,
    is_scheduler_running,
    read_schedule_status,
)
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.lookups import (
    existing_schedule,
    page_of_schedules,
    state_of,
    visible_tenant,
)
from tenantcron.service.responses.outcomes import schedule as registered_as_json
from tenantcron.service.responses.schedules import (
    paused_as_json,
    resumed_as_json,
    schedule_status_as_json,
    triggered_as_json,
)
from tenantcron.service.responses.shapes import (
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    SchedulePage,
    TriggeredResponse,
    WhyResponse,
)
from tenantcron.service.responses.why import why_as_json
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import schedule_cursors
from tenantcron.store.rows.tenant_schedules import ScheduleFilter

router = APIRouter(
    prefix="/tenants/{tenant:word}/schedules", tags=["schedules"], route_class=StrictRoute
)

_OPERATED = problems(404, 409)


@router.get("", response_model=SchedulePage, responses=READ)
async def list_schedules(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    saga: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="Filter by saga.")
    ] = None,
    enabled: Annotated[bool | None, Query(description="Filter by enabled or disabled.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the schedules of a tenant by name, with their next executions."""
    of, position, filters = (
        visible_tenant(work, tenant),
        text_position(after),
        ScheduleFilter(saga, enabled),
    )
    async with work.reading.transaction() as connection:
        row = await existing_tenant(connection, of)
        now = await database_time(connection)
        found = await page_of_schedules(connection, row, filters, position, limit + 1)
        paused = await schedule_cursors.pauses(connection, [of])
        faults = await schedule_cursors.faults(connection, [of])
    state = state_of(row, found, paused, faults)
    return conditional_reply(
        request,
        page(
            "schedules",
            live_schedules(state, now),
            limit,
            to_json=registered_as_json,
            position=_name,
        ),
    )


def _name(schedule: Registered) -> list[str]:
    return [schedule.definition.schedule_name]


@router.get("/{schedule:word}", response_model=ScheduleDetailsResponse, responses=READ)
async def get_schedule(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    schedule: SchedulePath,
) -> Response:
    """Get a schedule with its state, last executions and last changes."""
    ref = _ref(work, tenant, schedule)
    async with work.reading.transaction() as connection:
        status = await read_schedule_status(connection, ref, work.settings.lease, None)
    return conditional_reply(request, {**schedule_status_as_json(status)})


@router.get("/{schedule:word}/why", response_model=WhyResponse, responses=READ)
async def explain_schedule(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    schedule: SchedulePath,
) -> Response:
    """Explain why a schedule did not run."""
    ref = _ref(work, tenant, schedule)
    async with work.reading.transaction() as connection:
        status = await read_schedule_status(connection, ref, work.settings.lease, None)
    return conditional_reply(request, {**why_as_json(ref, explain(status))})


@router.post(
    "/{schedule:word}:pause",
    response_model=PausedResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def pause_schedule(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: PauseRequest,
) -> Response:
    """Pause a schedule. Pending executions still run unless `cancel_pending` is set."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> WriteResult:
        paused = await _operator(work, database).pause(
            ref, body.reason, body.until, cancel_pending=body.cancel_pending
        )
        return WriteResult({**paused_as_json(ref, paused)})

    return await write(request, work, step)


@router.post(
    "/{schedule:word}:resume",
    response_model=ResumedResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def resume_schedule(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: OptionalReason = NO_REASON,
) -> Response:
    """Resume a schedule. Occurrences of the pause are not fired."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> WriteResult:
        resumed = await _operator(work, database).resume(ref, body.reason)
        return WriteResult({**resumed_as_json(ref, resumed)})

    return await write(request, work, step)


@router.post(
    "/{schedule:word}:trigger",
    response_model=TriggeredResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def trigger_schedule(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: OptionalReason = NO_REASON,
) -> Response:
    """Run a schedule once, now, in addition to its timetable."""
    ref = await existing_schedule(work, tenant, schedule)

    async def step(database: Database) -> WriteResult:
        made = await _operator(work, database).trigger(ref, body.reason)
        running = await is_scheduler_running(database, work.settings.lease)
        return WriteResult({**triggered_as_json(ref, made, scheduler_running=running)})

    return await write(request, work, step)


def _ref(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    return ScheduleRef(visible_tenant(work, tenant), schedule)


def _operator(work: Work, database: Database) -> Operator:
    return Operator(database, work.settings, work.who, bounds=work.bounds)
