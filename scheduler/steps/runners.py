"""Runners: which replicas can run what, and what becomes of executions that none can run.

Every replica names its capabilities: in its worker row with each heartbeat, and in `capability`
when it starts, every few minutes, and when it leaves. An execution whose requirement no live
replica has stays pending and uses up no attempt. Any replica ends it when its start deadline has
passed, with a reason of its own, or when its tenant or schedule may not run any more
(`RunnerWatch`). That reads only which requirements are pending, unless one has no runner.

A replica that drains starts nothing, so it is no runner. A replica of the release before declares
nothing and claims everything; while one is alive, no requirement counts as without a runner.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.requirements import requirement
from tenantcron.scheduler.inspect.schedule_status import alive, without_runner
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import report_skipped
from tenantcron.store.connection import times
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerRow
from tenantcron.store.steps import requirements

log = structlog.get_logger(__name__)

# How often a replica looks for what has no runner, and how often it names what it can run.
EVERY: Final = 20.0
_NAMES_EVERY: Final = timedelta(minutes=10).total_seconds()
SHOWN: Final = 10


class RunnerWatch:
    """Names what this replica can run, and ends what no replica can."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._named_at: float | None = None
        self._has_warned = False
        # Whether the schedules were refreshed since the start, so that their cursors are there.
        self.knows_schedules = False

    async def look(self) -> float:
        """Take one step; return how many seconds there is nothing to do."""
        await self._name_in_time()
        await self._warn_once()
        pending = await requirements.glance_at_pending(self._replica.database)
        if not all(map(self._replica.capabilities.cover, pending)):
            await self._end_without_runner(pending)
        # The first refresh may still be under way.
        return EVERY * (1 + self._replica.random.random() / 4) if self._has_warned else 1.0

    async def name(self) -> None:
        """Record what this replica can run."""
        replica = self._replica
        async with replica.database.transaction() as connection:
            await requirements.name(connection, replica.capabilities.named, replica.clock())

    async def _warn_once(self) -> None:
        """Warn about enabled schedules that no live replica can run, as seen at the start."""
        if self._has_warned or not self.knows_schedules:
            return
        replica = self._replica
        async with replica.database.transaction() as connection:
            scheduled = await requirements.of_schedules(connection)
            sagas = {requirement(one.saga, one.kind): one for one in scheduled}
            missing = without_runner(sagas, await self._alive(connection))
        if missing:
            log.warning(
                "schedules_without_runner",
                schedules=sum(sagas[required].number for required in missing),
                requires=missing[:SHOWN],
                requirements=len(missing),
            )
        self._has_warned = True

    async def _name_in_time(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._named_at is None or now - self._named_at >= _NAMES_EVERY:
            await self.name()
            self._named_at = now

    async def _end_without_runner(self, pending: Collection[str]) -> None:
        replica = self._replica
        async with replica.database.transaction() as connection:
            missing = without_runner(pending, await self._alive(connection))
            if not missing:
                return
            ended = await requirements.end_without_runner(connection, missing, replica.clock())
        replica.counts.note_unstarted(Counter((one.state, one.reason) for one in ended))
        report_skipped(ended)

    async def _alive(self, connection: AsyncConnection) -> tuple[WorkerRow, ...]:
        now = await times.moment(connection, self._replica.clock())
        return alive(await workers.list_all(connection), now, self._replica.settings.lease)
