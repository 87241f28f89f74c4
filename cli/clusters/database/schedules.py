"""Schedules in a database."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tenantcron.cli.clusters.cluster import (
    BatchRequest,
    NewPause,
    ScheduleQuery,
    TenantSchedules,
)
from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.reconciler.outcome import all_schedules
from tenantcron.reconciler.state import read_states
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleStatus,
    existing_tenant,
    is_scheduler_running,
    read_schedule_status,
)
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.operate.bulk import pause_schedules, resume_schedules
from tenantcron.service.bulk import preview_schedules, schedules_page
from tenantcron.service.responses.bulk import schedules_as_json
from tenantcron.service.responses.bulk_shapes import BulkSchedulesResponse
from tenantcron.service.responses.outcomes import schedule
from tenantcron.service.responses.schedules import (
    paused_as_json,
    resumed_as_json,
    schedule_status_as_json,
    triggered_as_json,
)
from tenantcron.service.responses.shapes import (
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    TriggeredResponse,
    WhyResponse,
)
from tenantcron.service.responses.why import why_as_json
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import provided_cursors, schedule_cursors, tenants
from tenantcron.store.rows.bulk_schedules import PauseFilter
from tenantcron.store.rows.tenants import TenantFilter

# Tenants have their own schemas, so a page of schedules takes longer than a page of tenants.
TENANTS_A_PAGE: Final = 300


@dataclass(frozen=True, slots=True)
class DatabaseSchedules:
    """The schedules of a database."""

    caller: LocalCaller

    async def pages(self, tenant: TenantId | None) -> AsyncIterator[Sequence[TenantSchedules]]:
        """Yield the schedules of a tenant that must exist, or of all tenants by id."""
        async with self.caller.database.transaction() as connection:
            if tenant is not None:
                await existing_tenant(connection, tenant)
            now = await database_time(connection)
        async for page in self._tenants(tenant):
            yield await self._schedules(page, now)

    async def _tenants(self, only: TenantId | None) -> AsyncIterator[Sequence[TenantId]]:
        """Yield the ids of tenants, page by page; each page is read in its own transaction."""
        if only is not None:
            yield [only]
            return
        after: TenantId | None = None
        while True:
            async with self.caller.database.transaction() as connection:
                rows = await tenants.page(
                    connection, TenantFilter(), after=after, limit=TENANTS_A_PAGE
                )
            if rows:
                yield [row.id for row in rows]
            if len(rows) < TENANTS_A_PAGE:
                return
            after = rows[-1].id

    async def _schedules(
        self, page: Sequence[TenantId], now: datetime
    ) -> Sequence[TenantSchedules]:
        async with self.caller.database.transaction() as connection:
            provided = await provided_cursors.of_tenants(connection, page)
            faults = await schedule_cursors.faults(connection, page)
        states = await read_states(self.caller.database, page)
        return [
            TenantSchedules(
                tenant,
                [
                    schedule(found)
                    for found in all_schedules(
                        replace(state, faults=faults.get(tenant, {})),
                        provided.get(tenant, ()),
                        now,
                    )
                ],
                state.broken,
            )
            for tenant, state in states.items()
        ]

    async def show(self, ref: ScheduleRef) -> ScheduleDetailsResponse:
        """Return a schedule with its state, last executions and last changes."""
        return schedule_status_as_json(await self._status(ref))

    async def why(self, ref: ScheduleRef) -> WhyResponse:
        """Return why a schedule did not run."""
        return why_as_json(ref, explain(await self._status(ref)))

    async def pause(
        self, ref: ScheduleRef, reason: str, until: datetime | None, *, cancel_pending: bool
    ) -> PausedResponse:
        """Pause a schedule."""
        operator = self.caller.operator()
        paused = await operator.pause(ref, reason, until, cancel_pending=cancel_pending)
        return paused_as_json(ref, paused)

    async def resume(self, ref: ScheduleRef, reason: str | None) -> ResumedResponse:
        """Resume a schedule."""
        return resumed_as_json(ref, await self.caller.operator().resume(ref, reason))

    async def trigger(self, ref: ScheduleRef, reason: str | None) -> TriggeredResponse:
        """Run a schedule once."""
        made = await self.caller.operator().trigger(ref, reason)
        lease = self.caller.settings.lease
        is_running = await is_scheduler_running(self.caller.database, lease)
        return triggered_as_json(ref, made, scheduler_running=is_running)

    async def pause_batch(
        self, query: ScheduleQuery, pause: NewPause, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Pause a batch of schedules that are not paused."""
        operator, filters = self.caller.operator(), PauseFilter(False, query.tenant, query.saga)
        await operator.sync_all()
        if batch.dry_run:
            return await preview_schedules(self.caller.database, filters)
        page = await schedules_page(self.caller.database, filters, batch.after)
        done = await pause_schedules(
            operator,
            page.rows,
            filters,
            reason=pause.reason,
            until=pause.until,
            cancel_pending=pause.cancel_pending,
        )
        return schedules_as_json(done, page.next)

    async def resume_batch(
        self, query: ScheduleQuery, reason: str | None, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Resume a batch of paused schedules."""
        operator = self.caller.operator()
        filters = PauseFilter(True, query.tenant, query.saga, query.paused_reason)
        await operator.sync_all()
        if batch.dry_run:
            return await preview_schedules(self.caller.database, filters)
        page = await schedules_page(self.caller.database, filters, batch.after)
        await operator.prepare_history()
        done = await resume_schedules(operator, page.rows, filters, reason)
        return schedules_as_json(done, page.next)

    async def _status(self, ref: ScheduleRef) -> ScheduleStatus:
        async with self.caller.database.transaction() as connection:
            return await read_schedule_status(connection, ref, self.caller.settings.lease, None)
