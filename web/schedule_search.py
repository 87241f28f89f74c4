"""The list of the schedules of all tenants, with a search by a part of the name."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.core.names import is_name, is_tenant_id
from tenantcron.reconciler.outcome import provided_schedules
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import cursor_pages, schedule_counts
from tenantcron.store.rows.cursor_pages import CursorFilter, CursorPosition
from tenantcron.web.rendering import rendered
from tenantcron.web.routing import searched_text
from tenantcron.web.sessions import Visit

_ROWS: Final = 50


async def show(request: Request, visit: Visit) -> Response:
    """Show the schedules that the viewer may see, ordered by tenant and name."""
    find = searched_text(request)
    wanted = CursorFilter(visit.work.bound_to, containing=find.lower())
    async with visit.work.reading.transaction() as connection:
        now = await database_time(connection)
        rows = await cursor_pages.page(
            connection, wanted, after=_position(request), limit=_ROWS + 1
        )
        totals = await schedule_counts.totals(connection, now)
    shown = rows[:_ROWS]
    return rendered(
        request,
        "schedules.html",
        visit=visit,
        find=find,
        rows=list(zip(shown, provided_schedules(shown, now), strict=True)),
        next=shown[-1] if len(rows) > _ROWS else None,
        tenants_behind=totals.tenants_behind,
    )


def _position(request: Request) -> CursorPosition | None:
    tenant, _, schedule = request.query_params.get("from", "").partition("/")
    is_valid = is_tenant_id(tenant) and is_name(schedule)
    return CursorPosition(tenant, schedule) if is_valid else None
