"""The overview page: state of the fleet, findings, next and last 24 hours."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantcron.scheduler.inspect.cluster_status import ClusterStatus, read_cluster_status
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health import examine
from tenantcron.service.freshness import must_be_current
from tenantcron.store.rows import execution_history, schedule_counts, tenants
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow, Outcomes
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_counts import Totals
from tenantcron.store.rows.schedule_cursors import SharedTimetable
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.web.forecast_charts import (
    DAY,
    ENDED,
    HEIGHT,
    QUARTER,
    WIDTH,
    compute_load,
    marks,
    timeline,
)
from tenantcron.web.load_ahead import MOST_CURSORS, LoadAhead
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import ROOT, Visit

# Limits the cost of a request; the page shows when it is reached.
MOST_EXECUTIONS: Final = 50_000
_DEAD_SHOWN: Final = 8
_RUNNING_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The data of the page, read in one transaction."""

    status: ClusterStatus
    totals: Totals
    tenants: dict[str, int]
    bound_to: TenantRow | None
    timetables: list[SharedTimetable]
    outcomes: list[Outcomes]
    dead: list[ExecutionRow]
    running: list[ExecutionRow]

    @property
    def limit(self) -> int:
        """The concurrency limit of the cluster, or of the viewer's only tenant."""
        limits = self.status.limits
        if self.bound_to is None:
            return limits.overall
        own = self.bound_to.max_concurrent
        return limits.per_tenant if own is None else own


async def show(request: Request, visit: Visit) -> Response:
    """Show the overview; for a viewer of a single tenant it requires row-level security."""
    bound = visit.work.bound_to
    if bound is not None and not visit.work.service.row_level_security:
        return RedirectResponse(f"{ROOT}/tenants/{bound}", HTTPStatus.SEE_OTHER)
    ahead: LoadAhead = request.app.state.load_ahead
    fleet = await visit.work.read_history(
        lambda connection: _read(connection, visit, ahead), current=must_be_current(request)
    )
    now = fleet.status.now
    # In a thread: computing occurrences would block other requests.
    load = await asyncio.to_thread(compute_load, fleet.timetables, now, fleet.limit)
    past = timeline(fleet.outcomes, now, MOST_EXECUTIONS)
    return rendered(
        request,
        "overview.html",
        visit=visit,
        fleet=fleet,
        findings=examine(fleet.status),
        link_kind=_link_kind,
        error=FindingSeverity.ERROR,
        load=load,
        load_marks=marks(load.since),
        past=past,
        past_marks=marks(past.since),
        ended=ENDED,
        quarter=QUARTER,
        width=WIDTH,
        height=HEIGHT,
        cursors_cut=load.schedules + load.omitted >= MOST_CURSORS,
        most_cursors=MOST_CURSORS,
        most_executions=MOST_EXECUTIONS,
        now=now,
    )


async def _read(connection: AsyncConnection, visit: Visit, ahead: LoadAhead) -> FleetStatus:
    bound = visit.work.bound_to
    status = await read_cluster_status(connection, visit.work.settings.lease, None)
    now = status.now
    return FleetStatus(
        status=status,
        totals=await schedule_counts.totals(connection, now),
        tenants=await tenants.count_by_status(connection),
        bound_to=None if bound is None else await tenants.find(connection, bound),
        timetables=await ahead.timetables(connection, now, bound),
        outcomes=await execution_history.outcomes(
            connection,
            ExecutionFilter(bound, states=ENDED, since=now - DAY),
            span=QUARTER,
            most=MOST_EXECUTIONS,
        ),
        dead=await execution_history.page(
            connection,
            ExecutionFilter(bound, states=(State.DEAD,), since=now - timedelta(days=1)),
            before=None,
            limit=_DEAD_SHOWN,
        ),
        running=await execution_history.page(
            connection,
            ExecutionFilter(bound, states=(State.RUNNING,)),
            before=None,
            limit=_RUNNING_SHOWN,
        ),
    )


def _link_kind(finding: Finding) -> str | None:
    """Return the kind of page that the subjects of a finding link to, if any."""
    subjects = finding.subjects
    if finding.code in ("schedule-overdue", "cursor-set-aside", "schedule-auto-paused"):
        return "schedule"
    if finding.code in ("tenant-left-out", "tenant-not-followed", "tenants-missing"):
        return "tenant"
    return "execution" if finding.code == "lease-expired" and subjects else None
