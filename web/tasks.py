"""The page of a tenant's tasks."""

from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.scheduler.inspect.schedule_status import existing_tenant
from tenantcron.service.lookups import visible_tenant
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import tasks
from tenantcron.store.rows.tasks import TaskFilter, TaskState
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import Visit

_ROWS: Final = 50


async def show_list(request: Request, visit: Visit) -> Response:
    """Show the tasks of a tenant, the newest first."""
    of = visible_tenant(visit.work, request.path_params["tenant"])
    state = _state(request.query_params.get("state", ""))
    wanted = TaskFilter(of, states=() if state is None else (state,))
    async with visit.work.reading.transaction() as connection:
        tenant = await existing_tenant(connection, of)
        now = await database_time(connection)
        found = await tasks.page(connection, wanted, after=_position(request), limit=_ROWS)
    return rendered(
        request,
        "tasks.html",
        visit=visit,
        tenant=tenant,
        now=now,
        rows=found.tasks,
        next=found.after,
        state=state,
        states=tuple(TaskState),
    )


def _state(text: str) -> TaskState | None:
    """Return the state to filter by; an unknown one filters nothing."""
    return TaskState(text) if text in set(TaskState) else None


def _position(request: Request) -> UUID | None:
    try:
        return UUID(request.query_params["from"])
    except (KeyError, ValueError):
        return None
