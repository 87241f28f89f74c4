"""Runners: which replicas can run which executions, and how executions without a runner end.

Every replica declares its capabilities: in its worker row with each heartbeat, and in `capability`
when it starts, every few minutes, and when it stops. An execution whose requirement no live replica
meets stays pending and uses up no attempt. Any replica ends it after its start deadline, with its
own reason, or when its tenant or schedule may no longer run (`RunnerWatch`). This check only reads
the pending requirements, unless one of them has no runner.

A draining replica starts nothing, so it does not count. A replica of the previous release declares
nothing and claims everything; while one is alive, every requirement has a runner.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.requirements import limited_host, requirement
from tenantcron.scheduler.inspect.start_conditions import alive, without_runner
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import report_skipped
from tenantcron.store.connection import times
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerRow
from tenantcron.store.steps import rate_limits, requirements

log = structlog.get_logger(__name__)

# How often a replica looks for executions without a runner, and how often it declares its
# capabilities.
EVERY: Final = 20.0
_DECLARES_EVERY: Final = timedelta(minutes=10).total_seconds()
SHOWN: Final = 10


class RunnerWatch:
    """Declares the capabilities of this replica, and ends executions without a runner."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._declared_at: float | None = None
        self._has_warned = False
        # Whether the first refresh is complete, so that all cursors exist.
        self.knows_schedules = False

    async def check(self) -> float:
        """Run one step, and return the seconds until the next one."""
        await self._declare_in_time()
        await self._warn_once()
        pending = await requirements.glance_at_pending(self._replica.database)
        await self._end_rate_limited(pending)
        if not all(map(self._replica.capabilities.cover, pending)):
            await self._end_without_runner(pending)
        # The first refresh may still be in progress.
        return EVERY * (1 + self._replica.random.random() / 4) if self._has_warned else 1.0

    async def declare(self) -> None:
        """Record the capabilities of this replica."""
        replica = self._replica
        async with replica.database.transaction() as connection:
            await requirements.name(connection, replica.capabilities.named, replica.clock())

    async def _warn_once(self) -> None:
        """Warn once, after the start, about enabled schedules that no live replica can run."""
        if self._has_warned or not self.knows_schedules:
            return
        replica = self._replica
        async with replica.database.transaction() as connection:
            scheduled = await requirements.of_schedules(connection)
            sagas = {requirement(entry.saga, entry.kind): entry for entry in scheduled}
            missing = without_runner(sagas, await self._alive(connection))
        if missing:
            log.warning(
                "schedules_without_runner",
                schedules=sum(sagas[required].number for required in missing),
                requires=missing[:SHOWN],
                requirements=len(missing),
            )
        self._has_warned = True

    async def _declare_in_time(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._declared_at is None or now - self._declared_at >= _DECLARES_EVERY:
            await self.declare()
            self._declared_at = now

    async def _end_without_runner(self, pending: Collection[str]) -> None:
        replica = self._replica
        async with replica.database.transaction() as connection:
            live = await self._alive(connection)
            missing = without_runner(pending, live)
            if not missing:
                return
            lifted = _without_limit(missing, live)
            if lifted:
                await rate_limits.lift(connection, lifted)
            missing = [required for required in missing if required not in lifted]
            ended = await requirements.end_without_runner(connection, missing, replica.clock())
        if lifted:
            log.info("rate_limits_lifted", requires=lifted)
        replica.counts.note_unstarted(Counter((row.state, row.reason_code) for row in ended))
        report_skipped(ended)

    async def _end_rate_limited(self, pending: Collection[str]) -> None:
        """End executions that have waited too long for the rate limit of their host."""
        replica = self._replica
        limited = [required for required in pending if required in replica.capabilities.limited]
        if not limited:
            return
        async with replica.database.transaction(by_key=True) as connection:
            ended = await rate_limits.end_late(connection, limited, replica.clock())
        replica.counts.note_unstarted(Counter((row.state, row.reason_code) for row in ended))
        report_skipped(ended)

    async def _alive(self, connection: AsyncConnection) -> tuple[WorkerRow, ...]:
        now = await times.moment(connection, self._replica.clock())
        return alive(await workers.list_all(connection), now, self._replica.settings.lease)


def _without_limit(missing: Collection[str], live: Collection[WorkerRow]) -> list[str]:
    """Return the requirements of hosts whose rate limit no live replica has any more.

    Their executions are claimed like all others of that kind.
    """
    kinds = {required: limited[0] for required in missing if (limited := limited_host(required))}
    unserved = set(without_runner(set(kinds.values()), live))
    return [required for required, kind in kinds.items() if kind not in unserved]
