"""Pages of tenants: the list, a tenant, and the difference of two manifest versions."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.core.errors import UsageError
from tenantcron.core.labels import LabelFilter, read_filter
from tenantcron.core.names import is_tenant_id
from tenantcron.reconciler.diff import diff
from tenantcron.reconciler.document import definitions
from tenantcron.reconciler.outcome import Registered, live_schedules
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.service.lookups import page_of_schedules, state_of, visible_tenant
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import (
    execution_history,
    limits,
    manifest_versions,
    schedule_counts,
    schedule_cursors,
    tenants,
)
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tenant_schedules import ScheduleFilter
from tenantcron.store.rows.tenants import TenantFilter
from tenantcron.web.differences import differences
from tenantcron.web.rendering import rendered
from tenantcron.web.routing import searched_text
from tenantcron.web.sessions import Visit

_ROWS: Final = 50
_SCHEDULES: Final = 200
_MARKS: Final = 12
_VERSIONS: Final = 20
_LARGEST: Final = 2**31 - 1


async def show_list(request: Request, visit: Visit) -> Response:
    """Show the tenants that the viewer may see, ordered by id."""
    position, find = request.query_params.get("from", ""), searched_text(request)
    after = position if is_tenant_id(position) else None
    label = request.query_params.get("label", "").strip()
    labels, problem = _filters(label)
    seen = TenantFilter(labels=labels, only=visit.work.bound_to, containing=find.lower())
    async with visit.work.reading.transaction() as connection:
        rows = await tenants.page(connection, seen, after=after, limit=_ROWS + 1)
        running = await execution_history.running_by_tenant(connection)
        cluster = await limits.read(connection)
        counts = await schedule_counts.by_tenant(connection, [row.id for row in rows])
    return rendered(
        request,
        "tenants.html",
        visit=visit,
        rows=rows[:_ROWS],
        next=rows[_ROWS - 1].id if len(rows) > _ROWS else None,
        find=find,
        label=label,
        problem=problem,
        running=running,
        counts=counts,
        limits=cluster,
    )


def _filters(label: str) -> tuple[list[LabelFilter], str | None]:
    """Parse the label filter; return its problem if it is not valid."""
    if not label:
        return [], None
    try:
        return [read_filter(label)], None
    except UsageError as error:
        return [], str(error)


async def show(request: Request, visit: Visit) -> Response:
    """Show a tenant."""
    of = visible_tenant(visit.work, request.path_params["tenant"])
    find = searched_text(request)
    wanted = ScheduleFilter(containing=find.lower())
    async with visit.work.reading.transaction() as connection:
        row = await existing_tenant(connection, of)
        now = await database_time(connection)
        found = await page_of_schedules(connection, row, wanted, None, _SCHEDULES + 1)
        paused = await schedule_cursors.pauses(connection, [of])
        faults = await schedule_cursors.faults(connection, [of])
        schedules = live_schedules(state_of(row, found, paused, faults), now)
        latest = await execution_history.latest_of(
            connection, of, [_name(schedule) for schedule in schedules], _MARKS
        )
        cluster = await limits.read(connection)
        counts = await schedule_counts.by_tenant(connection, [of])
        running = await execution_history.running_by_tenant(connection)
        versions = await manifest_versions.page(connection, of, before=None, limit=_VERSIONS)
    return rendered(
        request,
        "tenant.html",
        visit=visit,
        tenant=row,
        now=now,
        schedules=schedules[:_SCHEDULES],
        more=len(schedules) > _SCHEDULES,
        find=find,
        count=counts[of],
        latest=latest,
        running=running.get(of, 0),
        max_concurrent=cluster.per_tenant if row.max_concurrent is None else row.max_concurrent,
        max_schedules=visit.work.bounds.cap_of(row.id, row.max_schedules),
        versions=versions,
        State=State,
    )


def _name(schedule: Registered) -> str:
    return schedule.definition.schedule_name


async def show_difference(request: Request, visit: Visit) -> Response:
    """Show the difference between two versions of a tenant's manifest."""
    of = visible_tenant(visit.work, request.path_params["tenant"])
    numbers = [_number(request.query_params.get(name, "")) for name in ("from", "to")]
    async with visit.work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        found = [await manifest_versions.find(connection, of, number) for number in numbers]
    for number, version in zip(numbers, found, strict=True):
        if version is None:
            raise UnknownError(f"tenant `{of}` has no manifest version {number}")
    (before, old), (after, new) = [version for version in found if version is not None]
    difference = diff(definitions(new), definitions(old))
    return rendered(
        request,
        "difference.html",
        visit=visit,
        tenant=of,
        before=before,
        after=after,
        difference=difference,
        differences=differences,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and int(text) <= _LARGEST else 0
