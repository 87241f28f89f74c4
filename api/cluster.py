"""The cluster: its health, its workers, and the schedules of all tenants."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import DEFAULT_LIMIT, After, Limit
from tenantcron.api.pages import invalid_position, page, position_parts, text_position
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, Reader
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.reconciler.outcome import provided_schedules
from tenantcron.scheduler.inspect.cluster_status import read_cluster_status
from tenantcron.scheduler.inspect.health import examine
from tenantcron.scheduler.inspect.schedule_status import alive
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.problems import ApiProblem
from tenantcron.service.responses.health import health_as_json, worker_as_json
from tenantcron.service.responses.outcomes import schedule as registered_as_json
from tenantcron.service.responses.shapes import (
    HealthResponse,
    TenantSchedulePage,
    TenantScheduleResponse,
    WorkerPage,
    WorkerResponse,
)
from tenantcron.service.work import Work
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import cursor_pages, workers
from tenantcron.store.rows.cursor_pages import CursorFilter, CursorPosition
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.workers import WorkerRow

router = APIRouter(tags=["cluster"])


@router.get("/health", response_model=HealthResponse, responses=READ)
async def get_health(request: Request, work: Reader) -> Response:
    """Check the health of the cluster, for callers that may see all tenants."""
    _require_all_tenants(work, "the health of the cluster covers")
    async with work.reading.transaction() as connection:
        status = await read_cluster_status(connection, work.settings.lease, None)
    return conditional_reply(request, {**health_as_json(status, examine(status))})


@router.get("/workers", response_model=WorkerPage, responses=READ)
async def list_workers(
    request: Request, work: Reader, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """List the workers by id, for callers that may see all tenants."""
    position = text_position(after)
    _require_all_tenants(work, "workers run executions of")
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
    """List the schedules that schedulers have picked up, by tenant and name."""
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    filters, position = CursorFilter(only, saga, enabled), _position(after)
    async with work.reading.transaction() as connection:
        now = await database_time(connection)
        rows = await cursor_pages.page(connection, filters, after=position, limit=limit + 1)

    def to_json(row: CursorRow) -> TenantScheduleResponse:
        (registered,) = provided_schedules([row], now)
        return {"tenant": row.tenant_id, **registered_as_json(registered)}

    shown = page("schedules", rows, limit, to_json=to_json, position=_sort_key)
    return conditional_reply(request, shown)


def _require_all_tenants(work: Work, what: str) -> None:
    if work.bound_to is not None:
        detail = f"{what} all tenants, but the token is for `{work.bound_to}`"
        raise ApiProblem("TC702", detail)


def _sort_key(row: CursorRow) -> list[str]:
    return [row.tenant_id, row.schedule_name]


def _position(after: str | None) -> CursorPosition | None:
    match position_parts(after):
        case None:
            return None
        case [str(tenant), str(schedule)] if tenant.isprintable() and schedule.isprintable():
            return CursorPosition(tenant, schedule)
    raise invalid_position()
