"""Failovers: detect a new server timeline, and record the starts and results that were lost.

A promoted standby and a restored backup both have a new timeline. Each replica remembers the last
timeline, and the attempts that it started and finished recently (`recent_attempts`). On a new
timeline it compares these attempts with the rows and records the missing ones: those executions run
again, so they may run twice. This module repairs nothing. Leases and fences do that.

- The comparison fails: the next check repeats it, because the replica remembers the new timeline
  only after it has recorded the losses. Recording a loss twice changes nothing.
- The server does not report its timeline: the replica logs that, and checks again after a day.
- A replica starts after the failover: it has nothing to compare, and only records the timeline.
"""

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Pins
from tenantcron.store.rows import failovers
from tenantcron.store.rows.failovers import LossRow

log = structlog.get_logger(__name__)

CHECK_INTERVAL = 60.0
_DAY_SECONDS = 86_400.0
_BATCH_SIZE = 1_000
# Losses that get their own log line; the table has all of them.
_LOGGED = 100


class FailoverWatch:
    """Compares the server's timeline with the previous one."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._timeline: int | None = None

    async def check(self) -> float:
        """Check the timeline once, and return the seconds until the next check."""
        try:
            timeline = await self._read()
        except DBAPIError as error:
            log.warning("timeline_unknown", error=first_line(error.orig))
            return _DAY_SECONDS
        before, lost = self._timeline, 0
        if before is not None and timeline != before:
            lost = await self._record_losses(timeline)
        if timeline != before:
            await self._notice(timeline, lost)
            self._timeline = timeline
        return CHECK_INTERVAL

    async def _read(self) -> int:
        # Read-write, so that a standby is detected. A number depends on no other setting.
        async with self._replica.database.transaction(pins=Pins.FEW) as connection:
            return await failovers.current_timeline(connection)

    async def _notice(self, timeline: int, lost: int) -> None:
        replica = self._replica
        async with replica.database.transaction() as connection:
            known = await failovers.noticed_timeline(connection)
            await failovers.notice(connection, timeline, replica.worker_id, replica.clock())
        before = self._timeline or known
        if before not in (None, timeline):
            log.warning("failover_noticed", timeline=timeline, before=before, lost=lost)

    async def _record_losses(self, timeline: int) -> int:
        replica, found = self._replica, list[LossRow]()
        remembered = replica.recent.remembered()
        for start in range(0, len(remembered), _BATCH_SIZE):
            async with replica.database.transaction(by_key=True) as connection:
                found += await failovers.record_losses(
                    connection,
                    remembered[start : start + _BATCH_SIZE],
                    timeline=timeline,
                    worker_id=replica.worker_id,
                    at=replica.clock(),
                )
        for loss in found[:_LOGGED]:
            log.warning(
                "execution_may_repeat",
                tenant=loss.tenant_id,
                schedule=loss.schedule_name,
                execution=str(loss.execution_id),
                attempt=loss.attempt,
                lost=loss.lost,
            )
        return len(found)
