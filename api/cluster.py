"""The cluster: its health, its limits, its workers, and the schedules of all tenants."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import DEFAULT_LIMIT, After, Limit, LimitChanges
from tenantcron.api.pages import (
    encoded_position,
    invalid_position,
    page,
    position_parts,
    text_position,
)
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.scheduler.inspect.start_conditions import alive
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.health import check_health
from tenantcron.service.limits import COLUMNS, read_limits, set_limits
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.problems import invalid
from tenantcron.service.responses.health import worker_as_json
from tenantcron.service.responses.outcomes import schedule as registered_as_json
from tenantcron.service.responses.platform_shapes import LimitsResponse
from tenantcron.service.responses.shapes import (
    HealthResponse,
    TenantSchedulePage,
    TenantScheduleResponse,
    WorkerPage,
    WorkerResponse,
)
from tenantcron.service.schedule_pages import TenantSchedule, read_schedules_page
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import workers
from tenantcron.store.rows.cursor_pages import CursorFilter, CursorPosition
from tenantcron.store.rows.workers import WorkerRow

router = APIRouter(tags=["cluster"], route_class=StrictRoute)


@router.get("/health", response_model=HealthResponse, responses=READ)
async def get_health(request: Request, work: Reader) -> Response:
    """Check the health of the cluster, for callers that may see all tenants."""
    work.require_all_tenants("the health of the cluster covers")
    report = await check_health(work.writing, work.settings, reading=work.reading)
    return conditional_reply(request, {**report.as_json()})


@router.get("/limits", response_model=LimitsResponse, responses=READ)
async def get_limits(request: Request, work: Reader) -> Response:
    """Get the concurrency limits of the cluster, for callers that may see all tenants."""
    work.require_all_tenants("the limits of the cluster cover")
    return conditional_reply(request, {**await read_limits(work.reading)})


@router.patch(
    "/limits", response_model=LimitsResponse, responses=problems(409), dependencies=REPEATABLE
)
async def update_limits(request: Request, work: OperatorOf, body: LimitChanges) -> Response:
    """Set concurrency limits; they apply to executions that start after the change."""
    work.require_all_tenants("the limits of the cluster cover")
    values = body.model_dump(include=body.model_fields_set & COLUMNS.keys())
    if not values:
        names = " or ".join(f"`{name}`" for name in COLUMNS)
        error = {"in": "body", "name": "", "message": f"set {names}"}
        raise invalid("the request sets no limit", error)

    async def step(database: Database) -> WriteResult:
        operator = Operator(database, work.settings, work.who)
        return WriteResult({**await set_limits(operator, values, body.reason)})

    return await write(request, work, step)


@router.get("/workers", response_model=WorkerPage, responses=READ)
async def list_workers(
    request: Request, work: Reader, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """List the workers by id, for callers that may see all tenants."""
    position = text_position(after)
    work.require_all_tenants("workers run executions of")
    async with work.reading.transaction() as connection:
        now = await database_time(connection)
        rows = await workers.page(connection, after=position, limit=limit + 1)
    living = alive(rows, now, work.settings.lease)

    def to_json(row: WorkerRow) -> WorkerResponse:
        return worker_as_json(row, alive=row in living)

    shown = page("workers", rows, limit, to_json=to_json, position=lambda row: [row.id])
    return conditional_reply(request, shown)


@router.get("/schedules", response_model=TenantSchedulePage, responses=READ)
async def list_all_schedules(
    request: Request,
    work: Reader,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="Filter by tenant.")
    ] = None,
    saga: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="Filter by saga.")
    ] = None,
    enabled: Annotated[bool | None, Query(description="Filter by enabled or disabled.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the schedules of all tenants that the caller sees, by tenant and name.

    `failed` has the tenants of the page whose schema cannot be read.
    """
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    filters, position = CursorFilter(only, saga, enabled), _position(after)
    read = await read_schedules_page(work.reading, filters, after=position, limit=limit + 1)
    shown = page("schedules", read.schedules, limit, to_json=_to_json, position=_sort_key)
    if shown["next"] is None and read.rest is not None:
        shown = {**shown, "next": encoded_position(read.rest)}
    failed = [{"tenant": tenant, "error": error} for tenant, error in read.failed.items()]
    return conditional_reply(request, {**shown, "failed": failed})


def _to_json(entry: TenantSchedule) -> TenantScheduleResponse:
    return {"tenant": entry.tenant, **registered_as_json(entry.schedule)}


def _sort_key(entry: TenantSchedule) -> list[str]:
    return list(entry.position)


def _position(after: str | None) -> CursorPosition | None:
    match position_parts(after):
        case None:
            return None
        case [str(tenant), str(schedule)] if tenant.isprintable() and schedule.isprintable():
            return CursorPosition(tenant, schedule)
    raise invalid_position()
