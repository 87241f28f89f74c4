"""Tasks: submit, list, show, why, cancel, retry and reschedule."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from tenantcron.api.inputs import DEFAULT_LIMIT, After, Limit, TenantPath
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import (
    READ,
    REPEATABLE,
    OperatorOf,
    Responses,
    StrictRoute,
    Submitter,
    TaskReader,
    problems,
)
from tenantcron.api.task_inputs import (
    NO_CANCELLATION,
    NewTask,
    NewTasks,
    Rescheduling,
    TaskCancellation,
    after_now,
)
from tenantcron.api.task_lists import TaskFilters, page_reply, position
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import TenantId
from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.scheduler.operate.task_operator import TaskOperator
from tenantcron.schedules.task_request import TaskRequest
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.task_shapes import (
    SubmittedTaskResponse,
    SubmittedTasksResponse,
    TaskDetailsResponse,
    TaskPageResponse,
    TaskResponse,
    TaskWhyResponse,
)
from tenantcron.service.responses.tasks import submitted_as_json, task_as_json
from tenantcron.service.submissions import declining
from tenantcron.service.tasks import task_details, task_of, task_why
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import tasks

router = APIRouter(prefix="/tenants/{tenant:word}/tasks", tags=["tasks"], route_class=StrictRoute)

TaskPath = Annotated[UUID, Path(description="The id of the task.")]
_SUBMITTED = problems(404, 409)
_EXISTED: Responses = {
    200: {"model": SubmittedTaskResponse, "description": "An earlier submission has its key."}
}
_OPERATED = problems(404, 409)


@router.post(
    "",
    status_code=202,
    response_model=SubmittedTaskResponse,
    responses=_EXISTED | _SUBMITTED,
    dependencies=REPEATABLE,
)
async def submit_task(
    request: Request,
    work: Submitter,
    tenant: TenantPath,
    body: NewTask,
) -> Response:
    """Submit a task; 200 with the first task if its key was submitted before."""
    of = visible_tenant(work, tenant)
    (wanted,) = work.service.submissions.requests(of, [body.as_options()])

    async def step(database: Database) -> WriteResult:
        (made,) = await _submitted(database, work, of, [wanted])
        status = HTTPStatus.OK if made["existed"] else HTTPStatus.ACCEPTED
        return WriteResult({**made}, status, {"Location": f"/v1/tenants/{of}/tasks/{made['id']}"})

    with declining():
        return await write(request, work, step)


@router.post(
    ":batch",
    status_code=202,
    response_model=SubmittedTasksResponse,
    responses=_SUBMITTED,
    dependencies=REPEATABLE,
)
async def submit_tasks(
    request: Request,
    work: Submitter,
    tenant: TenantPath,
    body: NewTasks,
) -> Response:
    """Submit up to 1,000 tasks: all of them, or none."""
    of = visible_tenant(work, tenant)
    options = [task.as_options() for task in body.tasks]
    wanted = work.service.submissions.requests(of, options, is_batch=True)

    async def step(database: Database) -> WriteResult:
        made = await _submitted(database, work, of, wanted)
        return WriteResult({"tasks": made}, HTTPStatus.ACCEPTED)

    with declining(is_batch=True):
        return await write(request, work, step)


@router.get("", response_model=TaskPageResponse, responses=READ)
async def list_tasks(
    request: Request,
    work: TaskReader,
    tenant: TenantPath,
    filters: TaskFilters,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the tasks of a tenant, newest first. A page with a filter may have fewer tasks."""
    of = visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        found = await tasks.page(connection, filters(of), after=position(after), limit=limit)
    return page_reply(request, found)


@router.get("/{task:word}", response_model=TaskDetailsResponse, responses=READ)
async def get_task(
    request: Request,
    work: TaskReader,
    tenant: TenantPath,
    task: TaskPath,
) -> Response:
    """Get a task with its payload and the attempts of its execution."""
    of = visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        return conditional_reply(request, {**await task_details(connection, of, task)})


@router.get("/{task:word}/why", response_model=TaskWhyResponse, responses=READ)
async def explain_waiting_task(
    request: Request,
    work: TaskReader,
    tenant: TenantPath,
    task: TaskPath,
) -> Response:
    """Explain why a task has not run, or how it ended."""
    of = visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        found = await task_why(connection, of, task, work.settings.lease)
    return conditional_reply(request, {**found})


@router.post(
    "/{task:word}:cancel",
    response_model=TaskResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def cancel_task(
    request: Request,
    work: Submitter,
    tenant: TenantPath,
    task: TaskPath,
    body: TaskCancellation = NO_CANCELLATION,
) -> Response:
    """Cancel a task that has not started; with `force`, request a running one to stop."""
    await _require_task(work, tenant, task)

    async def step(database: Database) -> WriteResult:
        row = await _operator(database, work).cancel(task, body.reason, force=body.force)
        return WriteResult({**task_as_json(row)})

    return await write(request, work, step)


@router.post(
    "/{task:word}:retry",
    response_model=TaskResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def retry_task(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    task: TaskPath,
) -> Response:
    """Run a dead, skipped or cancelled task again."""
    await _require_task(work, tenant, task)

    async def step(database: Database) -> WriteResult:
        return WriteResult({**task_as_json(await _operator(database, work).retry(task))})

    return await write(request, work, step)


@router.post(
    "/{task:word}:reschedule",
    response_model=TaskResponse,
    responses=_OPERATED,
    dependencies=REPEATABLE,
)
async def reschedule_task(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    task: TaskPath,
    body: Rescheduling,
) -> Response:
    """Move a waiting task to another time."""
    await _require_task(work, tenant, task)

    async def step(database: Database) -> WriteResult:
        async with database.transaction() as connection:
            execute_at = after_now(body, await database_time(connection))
        row = await _operator(database, work).reschedule(task, execute_at)
        return WriteResult({**task_as_json(row)})

    return await write(request, work, step)


async def _submitted(
    database: Database, work: Work, tenant: TenantId, requests: list[TaskRequest]
) -> list[SubmittedTaskResponse]:
    made = await _operator(database, work).submit(tenant, requests)
    pairs = zip(requests, made, strict=True)
    return [submitted_as_json(tenant, request, submitted) for request, submitted in pairs]


def _operator(database: Database, work: Work) -> TaskOperator:
    return TaskOperator(database, work.settings, work.who)


async def _require_task(work: Work, tenant: str, task: UUID) -> None:
    """Raise an error if the caller may not see the task."""
    of = visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        await task_of(connection, of, task)
