"""Executions: list, show, retry and cancel."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    LONGEST_REASON,
    NO_REASON,
    After,
    Limit,
    Moment,
    OptionalReason,
)
from tenantcron.api.pages import invalid_position, moment, page, position_parts
from tenantcron.api.records import storable
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.execution_ids import PREFIX_PATTERN, id_range
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.scheduler.operate.execution_lookup import details_of
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.freshness import must_be_current
from tenantcron.service.lookups import require_execution, visible_execution, visible_tenant
from tenantcron.service.responses.executions import as_json, details_as_json, log_as_json
from tenantcron.service.responses.shapes import (
    ExecutionDetailsResponse,
    ExecutionLogResponse,
    ExecutionPage,
    ExecutionResponse,
)
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow, HistoryPosition
from tenantcron.store.rows.executions import State

router = APIRouter(prefix="/executions", tags=["executions"], route_class=StrictRoute)

ExecutionPath = Annotated[UUID, Path(description="The id of the execution.")]
_OPERATED = problems(404, 409)


@router.get("", response_model=ExecutionPage, responses=READ)
async def list_executions(
    request: Request,
    work: Reader,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="Filter by tenant.")
    ] = None,
    schedule: Annotated[
        str | None,
        Query(pattern=f"^{NAME_PATTERN}$", description="Filter by schedule name."),
    ] = None,
    state: Annotated[list[State] | None, Query(description="Filter by state.")] = None,
    since: Annotated[Moment | None, Query(description="Scheduled at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Scheduled before this time.")] = None,
    prefix: Annotated[
        str | None,
        Query(
            alias="id",
            pattern=f"^{PREFIX_PATTERN}$",
            description="Filter by id, or by its first characters, at least 8.",
        ),
    ] = None,
    saga: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="Filter by saga.")
    ] = None,
    error: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=LONGEST_REASON,
            description="Filter by a part of the reason, in upper or lower case.",
        ),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the executions that the caller may see, newest first."""
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    ids = None if prefix is None else id_range(prefix)
    filters = ExecutionFilter(
        only, schedule, tuple(state or ()), since, until, ids, saga, storable(error)
    )
    position = _position(after)
    rows = await work.read_history(
        lambda connection: execution_history.page(
            connection, filters, before=position, limit=limit + 1
        ),
        current=must_be_current(request),
    )
    return conditional_reply(
        request, page("executions", rows, limit, to_json=as_json, position=_sort_key)
    )


@router.get("/{execution:word}", response_model=ExecutionDetailsResponse, responses=READ)
async def get_execution(
    request: Request,
    work: Reader,
    execution: ExecutionPath,
) -> Response:
    """Get an execution with its attempts."""
    async with work.reading.transaction() as connection:
        found = await visible_execution(connection, work, execution)
        details = await details_of(connection, found)
    return conditional_reply(request, {**details_as_json(details)})


@router.get("/{execution:word}/log", response_model=ExecutionLogResponse, responses=READ)
async def get_execution_log(
    request: Request,
    work: Reader,
    execution: ExecutionPath,
) -> Response:
    """Get the stored logs of an execution, including that of the running attempt so far."""
    async with work.reading.transaction() as connection:
        found = await visible_execution(connection, work, execution)
        details = await details_of(connection, found)
    return conditional_reply(request, {**log_as_json(details)})


@router.post(
    "/{execution:word}:retry",
    response_model=ExecutionResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def retry_execution(
    request: Request,
    work: OperatorOf,
    execution: ExecutionPath,
) -> Response:
    """Retry a dead, cancelled, skipped or missed execution."""
    await require_execution(work, execution)

    async def step(database: Database) -> WriteResult:
        row = await Operator(database, work.settings, work.who).retry(str(execution))
        return WriteResult({**as_json(row)})

    return await write(request, work, step)


@router.post(
    "/{execution:word}:cancel",
    response_model=ExecutionResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def cancel_execution(
    request: Request,
    work: OperatorOf,
    execution: ExecutionPath,
    body: OptionalReason = NO_REASON,
) -> Response:
    """Cancel a pending execution; request a running one to stop."""
    await require_execution(work, execution)

    async def step(database: Database) -> WriteResult:
        operator = Operator(database, work.settings, work.who)
        return WriteResult({**as_json(await operator.cancel(str(execution), body.reason))})

    return await write(request, work, step)


def _sort_key(row: ExecutionRow) -> list[str]:
    return [row.scheduled_for.isoformat(), str(row.id)]


def _position(after: str | None) -> HistoryPosition | None:
    match position_parts(after):
        case None:
            return None
        case [str(scheduled_for), str(execution)]:
            try:
                return HistoryPosition(moment(scheduled_for), UUID(execution))
            except ValueError as error:
                raise invalid_position() from error
    raise invalid_position()
