"""Bulk operations on executions and schedules.

A request changes one batch, in one transaction. If `next` of its response is not null, send the
request again with this value as `after`.
"""

from collections.abc import Awaitable, Callable, Sequence

from fastapi import APIRouter, Request, Response

from tenantcron.api.bulk_inputs import BulkCancel, BulkPause, BulkResume, BulkRetry
from tenantcron.api.records import storable
from tenantcron.api.replies import json_reply
from tenantcron.api.routing import REPEATABLE, OperatorOf, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.operate.bulk import (
    CANCELLED_BY_DEFAULT,
    RETRIED_BY_DEFAULT,
    ExecutionBatch,
    ScheduleBatch,
    cancel_executions,
    pause_schedules,
    resume_schedules,
    retry_executions,
)
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.bulk import (
    executions_page,
    preview_executions,
    preview_schedules,
    schedules_page,
)
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.bulk import executions_as_json, schedules_as_json
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse, BulkSchedulesResponse
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.bulk_schedules import PauseFilter
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import CursorRow

router = APIRouter(route_class=StrictRoute)

_CHANGED = problems(404)


@router.post(
    "/executions:retry",
    tags=["executions"],
    response_model=BulkExecutionsResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def retry_executions_in_bulk(request: Request, work: OperatorOf, body: BulkRetry) -> Response:
    """Retry a batch of ended executions that match the filters, the oldest first."""
    return await _change_executions(
        request, work, body, _states(body.states, RETRIED_BY_DEFAULT), retry_executions
    )


@router.post(
    "/executions:cancel",
    tags=["executions"],
    response_model=BulkExecutionsResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def cancel_executions_in_bulk(
    request: Request, work: OperatorOf, body: BulkCancel
) -> Response:
    """Cancel a batch of executions that match the filters; request running ones to stop."""

    async def cancel(
        operator: Operator, page: Sequence[ExecutionRow], filters: ExecutionFilter
    ) -> ExecutionBatch:
        return await cancel_executions(operator, page, filters, body.reason)

    states = _states(body.states, CANCELLED_BY_DEFAULT)
    return await _change_executions(request, work, body, states, cancel)


@router.post(
    "/schedules:pause",
    tags=["schedules"],
    response_model=BulkSchedulesResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def pause_schedules_in_bulk(request: Request, work: OperatorOf, body: BulkPause) -> Response:
    """Pause a batch of schedules that match the filters and are not paused yet."""
    filters = PauseFilter(False, _tenant(work, body.tenant), body.saga)

    async def pause(operator: Operator, page: Sequence[CursorRow]) -> ScheduleBatch:
        return await pause_schedules(
            operator,
            page,
            filters,
            reason=body.reason,
            until=body.until,
            cancel_pending=body.cancel_pending,
        )

    return await _change_schedules(request, work, body, filters, pause)


@router.post(
    "/schedules:resume",
    tags=["schedules"],
    response_model=BulkSchedulesResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def resume_schedules_in_bulk(
    request: Request, work: OperatorOf, body: BulkResume
) -> Response:
    """Resume a batch of paused schedules that match the filters."""
    filters = PauseFilter(True, _tenant(work, body.tenant), body.saga, body.paused_reason)

    async def resume(operator: Operator, page: Sequence[CursorRow]) -> ScheduleBatch:
        return await resume_schedules(operator, page, filters, body.reason)

    return await _change_schedules(request, work, body, filters, resume)


async def _change_executions(
    request: Request,
    work: Work,
    body: BulkRetry | BulkCancel,
    states: tuple[State, ...],
    change: Callable[
        [Operator, Sequence[ExecutionRow], ExecutionFilter], Awaitable[ExecutionBatch]
    ],
) -> Response:
    tenant = _tenant(work, body.tenant)
    filters = ExecutionFilter(
        tenant,
        body.schedule,
        states,
        body.since,
        body.until,
        saga=body.saga,
        error=storable(body.error),
    )
    if body.dry_run:
        return json_reply({**await preview_executions(work.reading, filters)})
    page = await executions_page(work.reading, filters, body.after)

    async def step(database: Database) -> WriteResult:
        batch = await change(_operator(work, database), page.rows, filters)
        return WriteResult({**executions_as_json(batch, page.next)})

    return await write(request, work, step)


async def _change_schedules(
    request: Request,
    work: Work,
    body: BulkPause | BulkResume,
    filters: PauseFilter,
    change: Callable[[Operator, Sequence[CursorRow]], Awaitable[ScheduleBatch]],
) -> Response:
    # Before the transaction of the write, as in `existing_schedule`.
    await refresh(work.writing, TenantScheduleProvider(work.bounds))
    if body.dry_run:
        return json_reply({**await preview_schedules(work.reading, filters)})
    page = await schedules_page(work.reading, filters, body.after)
    await _operator(work, work.writing).prepare_history()

    async def step(database: Database) -> WriteResult:
        batch = await change(_operator(work, database), page.rows)
        return WriteResult({**schedules_as_json(batch, page.next)})

    return await write(request, work, step)


def _tenant(work: Work, tenant: str | None) -> TenantId | None:
    """Return the tenant of a filter; a caller that is bound to a tenant sees no others."""
    return work.bound_to if tenant is None else visible_tenant(work, tenant)


def _states(given: Sequence[str] | None, default: tuple[State, ...]) -> tuple[State, ...]:
    return default if given is None else tuple(map(State, given))


def _operator(work: Work, database: Database) -> Operator:
    return Operator(database, work.settings, work.who, bounds=work.bounds)
