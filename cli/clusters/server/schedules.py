"""Schedules on a server."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from tenantcron.cli.clusters.cluster import (
    BatchRequest,
    NewPause,
    ScheduleQuery,
    TenantSchedules,
)
from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.client import bulk, schedules, tenants
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.service.responses.bulk_shapes import BulkSchedulesResponse
from tenantcron.service.responses.shapes import (
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    ScheduleResponse,
    TenantSchedulePage,
    TenantScheduleResponse,
    TriggeredResponse,
    WhyResponse,
)


class _ByTenant:
    """The schedules of all tenants or of one, read forward in the order of tenants."""

    def __init__(self, caller: ServerCaller, only: TenantId | None) -> None:
        self._pages = _pages(caller, only)
        self._read: deque[TenantScheduleResponse] = deque()
        self._failed: dict[str, str] = {}

    async def of(self, tenant: str) -> TenantSchedules:
        """Return the schedules of a tenant; those of tenants before it are skipped."""
        found: list[ScheduleResponse] = []
        # Reads up to the next tenant. A page has the failures up to its last tenant.
        while await self._has_next() and self._read[0]["tenant"] <= tenant:
            schedule = self._read.popleft()
            if schedule["tenant"] == tenant:
                found.append(_without_tenant(schedule))
        return TenantSchedules(tenant, found, self._failed.get(tenant))

    async def _has_next(self) -> bool:
        while not self._read:
            page = await anext(self._pages, None)
            if page is None:
                return False
            self._read.extend(page["schedules"])
            self._failed |= {failed["tenant"]: failed["error"] for failed in page["failed"]}
        return True


async def _pages(caller: ServerCaller, only: TenantId | None) -> AsyncIterator[TenantSchedulePage]:
    after: str | None = None
    while True:
        page = await caller.send(schedules.page_of_all(tenant=only, after=after))
        yield page
        after = page["next"]
        if after is None:
            return


def _without_tenant(schedule: TenantScheduleResponse) -> ScheduleResponse:
    return cast(
        "ScheduleResponse", {key: value for key, value in schedule.items() if key != "tenant"}
    )


@dataclass(frozen=True, slots=True)
class ServerSchedules:
    """The schedules of a server."""

    caller: ServerCaller

    async def pages(self, tenant: TenantId | None) -> AsyncIterator[Sequence[TenantSchedules]]:
        """Yield the schedules of a tenant that must exist, or of all tenants by id.

        The server lists tenants and schedules in the same order, so both are read side by side.
        """
        following = _ByTenant(self.caller, tenant)
        if tenant is not None:
            found = await following.of(tenant)
            if not found.schedules and found.error is None:
                # This list is empty for an unknown tenant; its own list is an error then.
                await self.caller.first(schedules.list_of(tenant), 1)
            yield [found]
            return
        async for page in self.caller.pages(tenants.list_all()):
            yield [await following.of(row["tenant"]) for row in page]

    async def show(self, ref: ScheduleRef) -> ScheduleDetailsResponse:
        """Return a schedule with its state, last executions and last changes."""
        return await self.caller.send(schedules.show(ref.tenant, ref.schedule))

    async def why(self, ref: ScheduleRef) -> WhyResponse:
        """Return why a schedule did not run."""
        return await self.caller.send(schedules.why(ref.tenant, ref.schedule))

    async def pause(
        self, ref: ScheduleRef, reason: str, until: datetime | None, *, cancel_pending: bool
    ) -> PausedResponse:
        """Pause a schedule."""
        return await self.caller.send(
            schedules.pause(
                ref.tenant, ref.schedule, reason, until=until, cancel_pending=cancel_pending
            )
        )

    async def resume(self, ref: ScheduleRef, reason: str | None) -> ResumedResponse:
        """Resume a schedule."""
        return await self.caller.send(schedules.resume(ref.tenant, ref.schedule, reason))

    async def trigger(self, ref: ScheduleRef, reason: str | None) -> TriggeredResponse:
        """Run a schedule once."""
        return await self.caller.send(schedules.trigger(ref.tenant, ref.schedule, reason))

    async def pause_batch(
        self, query: ScheduleQuery, pause: NewPause, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Pause a batch of schedules that are not paused."""
        return await self.caller.send(
            bulk.pause_schedules(
                bulk.ScheduleSelection(tenant=query.tenant, saga=query.saga),
                pause.reason,
                until=pause.until,
                cancel_pending=pause.cancel_pending,
                dry_run=batch.dry_run,
                after=batch.after,
            )
        )

    async def resume_batch(
        self, query: ScheduleQuery, reason: str | None, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Resume a batch of paused schedules."""
        return await self.caller.send(
            bulk.resume_schedules(
                bulk.ScheduleSelection(tenant=query.tenant, saga=query.saga),
                reason,
                paused_reason=query.paused_reason,
                dry_run=batch.dry_run,
                after=batch.after,
            )
        )
