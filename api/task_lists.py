"""Tasks of all tenants; and the filters and pages of each list of tasks."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from tenantcron.api.inputs import DEFAULT_LIMIT, After, Limit, Moment
from tenantcron.api.pages import encoded_position, invalid_position, text_position
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, StrictRoute, TaskReader
from tenantcron.core.execution_ids import PREFIX_PATTERN, id_range
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN, TenantId
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.task_shapes import TaskPageResponse
from tenantcron.service.responses.tasks import task_as_json
from tenantcron.store.rows import tasks
from tenantcron.store.rows.tasks import TaskFilter, TaskPage, TaskState

router = APIRouter(prefix="/tasks", tags=["tasks"], route_class=StrictRoute)


def _filters(
    saga: Annotated[
        str | None, Query(pattern=f"^{NAME_PATTERN}$", description="Filter by saga.")
    ] = None,
    state: Annotated[list[TaskState] | None, Query(description="Filter by state.")] = None,
    since: Annotated[Moment | None, Query(description="Executed at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Executed before this time.")] = None,
    prefix: Annotated[
        str | None,
        Query(
            alias="id",
            pattern=f"^{PREFIX_PATTERN}$",
            description="Filter by id, or by its first characters, at least 8.",
        ),
    ] = None,
) -> Callable[[TenantId | None], TaskFilter]:
    ids = None if prefix is None else id_range(prefix, "task")
    return lambda tenant: TaskFilter(tenant, saga, tuple(state or ()), since, until, ids)


# The filters of a request, to which the tenant is added.
TaskFilters = Annotated[Callable[[TenantId | None], TaskFilter], Depends(_filters)]


@router.get("", response_model=TaskPageResponse, responses=READ)
async def list_all_tasks(
    request: Request,
    work: TaskReader,
    filters: TaskFilters,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="Filter by tenant.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the tasks of all tenants that the caller sees, newest first, as those of one tenant."""
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        found = await tasks.page(connection, filters(only), after=position(after), limit=limit)
    return page_reply(request, found)


def page_reply(request: Request, found: TaskPage) -> Response:
    """Return the response with a page of tasks."""
    following = None if found.after is None else encoded_position([str(found.after)])
    shown = {"tasks": [task_as_json(row) for row in found.tasks], "next": following}
    return conditional_reply(request, shown)


def position(after: str | None) -> UUID | None:
    """Return the task after which a page begins."""
    text = text_position(after)
    try:
        return None if text is None else UUID(text)
    except ValueError as error:
        raise invalid_position() from error
