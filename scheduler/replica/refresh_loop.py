"""The refresh loop: syncs cursors with schedules."""

import asyncio
from collections.abc import Sequence

import structlog

from tenantcron.provider.pace import Pace
from tenantcron.provider.protocol import ScheduleProvider
from tenantcron.provider.refresh import Refreshed, refresh
from tenantcron.provider.schedule_limits import ProviderError
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.scheduler.steps.runners import RunnerWatch

log = structlog.get_logger(__name__)

_SHORTEST_WAIT = 0.001


class RefreshLoop:
    """Refreshes all providers at a jittered interval, and the tenants' schedules on a NOTIFY."""

    def __init__(
        self,
        replica: Replica,
        providers: Sequence[ScheduleProvider],
        signals: WakeSignals,
        runners: RunnerWatch,
    ) -> None:
        settings = replica.settings
        self._replica, self._providers = replica, providers
        self._signals, self._runners = signals, runners
        self._pace = Pace(replica.random, settings.refresh_interval, settings.refresh_jitter)
        self._next_refresh = 0.0

    async def step(self) -> float:
        """Sync changed schedules; a periodic refresh also retries tenants that failed before."""
        clock = asyncio.get_running_loop().time
        is_periodic = clock() >= self._next_refresh
        # Notifications are about tenants, which the first provider serves.
        for provider in self._providers if is_periodic else self._providers[:1]:
            await self._refresh(provider, retry_broken=is_periodic)
        if is_periodic:
            self._next_refresh = clock() + self._pace.draw().total_seconds()
            self._runners.knows_schedules = True
        return max(self._next_refresh - clock(), _SHORTEST_WAIT)

    async def _refresh(self, provider: ScheduleProvider, *, retry_broken: bool) -> None:
        replica, clock = self._replica, asyncio.get_running_loop().time
        began = clock()
        try:
            refreshed = await refresh(
                replica.database, provider, at=replica.clock(), retry_broken=retry_broken
            )
        except ProviderError as error:
            log.error("provider_failed", provider=error.provider, error=str(error))
            return
        replica.counts.refreshes.add([clock() - began])
        replica.counts.note_unstarted(refreshed.ended)
        self._report(provider, refreshed)

    def _report(self, provider: ScheduleProvider, refreshed: Refreshed) -> None:
        for tenant, why in refreshed.broken.items():
            log.error("tenant_left_out", provider=provider.name, tenant=tenant, error=why)
        if refreshed.created or refreshed.updated or refreshed.removed:
            log.info(
                "refreshed",
                provider=provider.name,
                tenants=refreshed.tenants,
                created=refreshed.created,
                updated=refreshed.updated,
                removed=refreshed.removed,
            )
            self._signals.cursors_changed.set()
