"""Executions in a database."""

from collections.abc import Sequence
from dataclasses import dataclass

from tenantcron.cli.clusters.cluster import BatchRequest, ExecutionQuery
from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.schedule_status import existing_tenant, require_schedule
from tenantcron.scheduler.operate.bulk import (
    CANCELLED_BY_DEFAULT,
    RETRIED_BY_DEFAULT,
    cancel_executions,
    retry_executions,
)
from tenantcron.scheduler.operate.execution_lookup import execution_details
from tenantcron.service.bulk import executions_page, preview_executions
from tenantcron.service.responses.bulk import executions_as_json
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse
from tenantcron.service.responses.executions import as_json, details_as_json
from tenantcron.service.responses.shapes import ExecutionDetailsResponse, ExecutionResponse
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionFilter
from tenantcron.store.rows.executions import State


@dataclass(frozen=True, slots=True)
class DatabaseExecutions:
    """The executions of a database."""

    caller: LocalCaller

    async def newest(self, query: ExecutionQuery, limit: int) -> Sequence[ExecutionResponse]:
        """Return the newest executions; a tenant or schedule that never existed is an error."""
        tenant, schedule = query.tenant, query.schedule
        filters = _filters(query, ())
        async with self.caller.database.transaction() as connection:
            if tenant is not None:
                await existing_tenant(connection, tenant)
            rows = await execution_history.newest(connection, filters, limit)
            # A deleted schedule still has its history; a schedule that never existed is a typo.
            if not rows and tenant is not None and schedule is not None:
                await require_schedule(connection, ScheduleRef(tenant, schedule))
        return [as_json(row) for row in rows]

    async def show(self, prefix: str) -> ExecutionDetailsResponse:
        """Return an execution with its attempts."""
        async with self.caller.database.transaction() as connection:
            return details_as_json(await execution_details(connection, prefix))

    async def retry(self, prefix: str) -> ExecutionResponse:
        """Queue an execution again."""
        return as_json(await self.caller.operator().retry(prefix))

    async def cancel(self, prefix: str, reason: str | None) -> ExecutionResponse:
        """Cancel an execution, or request it to stop."""
        return as_json(await self.caller.operator().cancel(prefix, reason))

    async def retry_batch(
        self, query: ExecutionQuery, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Queue a batch of executions again; without states, DEAD ones."""
        filters = _filters(query, RETRIED_BY_DEFAULT)
        if batch.dry_run:
            return await preview_executions(self.caller.database, filters)
        page = await executions_page(self.caller.database, filters, batch.after)
        done = await retry_executions(self.caller.operator(), page.rows, filters)
        return executions_as_json(done, page.next)

    async def cancel_batch(
        self, query: ExecutionQuery, reason: str | None, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Cancel a batch of executions; without states, pending ones."""
        filters = _filters(query, CANCELLED_BY_DEFAULT)
        if batch.dry_run:
            return await preview_executions(self.caller.database, filters)
        page = await executions_page(self.caller.database, filters, batch.after)
        done = await cancel_executions(self.caller.operator(), page.rows, filters, reason)
        return executions_as_json(done, page.next)


def _filters(query: ExecutionQuery, default: tuple[State, ...]) -> ExecutionFilter:
    return ExecutionFilter(
        query.tenant,
        query.schedule,
        tuple(map(State, query.states)) or default,
        query.since,
        query.until,
        saga=query.saga,
        error=query.error,
    )
