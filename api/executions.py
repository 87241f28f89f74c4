"""Executions: lists, single ones with their attempts, and what operators do to them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    After,
    Limit,
    Moment,
    OptionalReason,
)
from tenantcron.api.pages import moment, not_a_place, page, parts
from tenantcron.api.replies import told
from tenantcron.api.routing import READ, REPEATABLE, OperatorOf, Reader, problems
from tenantcron.api.writes import Done, write
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.scheduler.operate.execution_lookup import ExecutionDetails
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.lookups import require_execution, seen_execution, seen_tenant
from tenantcron.service.responses.executions import as_json, story_as_json
from tenantcron.service.responses.shapes import ExecutionPage, ExecutionResponse, StoryResponse
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionRow, Filter, Place
from tenantcron.store.rows.executions import State

router = APIRouter(prefix="/executions", tags=["executions"])

ExecutionPath = Annotated[UUID, Path(description="its id")]
_OPERATED = problems(404, 409)


@router.get("", response_model=ExecutionPage, responses=READ)
async def list_executions(
    request: Request,
    work: Reader,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="of this tenant")
    ] = None,
    schedule: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="of the schedule of this name")
    ] = None,
    state: Annotated[list[State] | None, Query(description="in one of these")] = None,
    since: Annotated[Moment | None, Query(description="scheduled for then or later")] = None,
    until: Annotated[Moment | None, Query(description="scheduled for before then")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the executions that the caller sees, the newest first."""
    of = work.bound_to if tenant is None else seen_tenant(work, tenant)
    wanted, place = Filter(of, schedule, tuple(state or ()), since, until), _place(after)
    async with work.reading.transaction() as connection:
        rows = await execution_history.page(connection, wanted, before=place, limit=limit + 1)
    return told(request, page("executions", rows, limit, tell=as_json, place=_written))


@router.get("/{execution:word}", response_model=StoryResponse, responses=READ)
async def show_execution(
    request: Request,
    work: Reader,
    execution: ExecutionPath,
) -> Response:
    """Show one execution with its attempts."""
    async with work.reading.transaction() as connection:
        found = await seen_execution(connection, work, execution)
        attempts = await execution_history.attempts_of(connection, found)
    return told(request, {**story_as_json(ExecutionDetails(found, tuple(attempts)))})


@router.post(
    "/{execution:word}:retry",
    response_model=ExecutionResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def retry(
    request: Request,
    work: OperatorOf,
    execution: ExecutionPath,
) -> Response:
    """Let an execution wait again that is dead, cancelled, skipped or missed."""
    await require_execution(work, execution)

    async def step(database: Database) -> Done:
        row = await Operator(database, work.settings, work.who).retry(str(execution))
        return Done({**as_json(row)})

    return await write(request, work, step)


@router.post(
    "/{execution:word}:cancel",
    response_model=ExecutionResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def cancel(
    request: Request,
    work: OperatorOf,
    execution: ExecutionPath,
    body: OptionalReason,
) -> Response:
    """End an execution that waits; ask one that runs to stop."""
    await require_execution(work, execution)

    async def step(database: Database) -> Done:
        operator = Operator(database, work.settings, work.who)
        return Done({**as_json(await operator.cancel(str(execution), body.reason))})

    return await write(request, work, step)


def _written(row: ExecutionRow) -> list[str]:
    return [row.scheduled_for.isoformat(), str(row.id)]


def _place(after: str | None) -> Place | None:
    match parts(after):
        case None:
            return None
        case [str(scheduled_for), str(execution)]:
            try:
                return Place(moment(scheduled_for), UUID(execution))
            except ValueError as error:
                raise not_a_place() from error
    raise not_a_place()
