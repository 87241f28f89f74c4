"""Failovers: noticed by the server's timeline, and what was lost in them is recorded.

A promoted standby, and a restored backup, has a new timeline. Each replica remembers the timeline
that it saw last, and what it has started and recorded lately (`recent`). On a new timeline it
compares that with the rows, and records what is missing there: those executions run again, so they
may have run twice. Nothing is repaired here. Leases and the fence do that.

- The comparison fails: the next look repeats it, since the new timeline is taken over only after
  the losses are recorded. Recording twice changes nothing.
- The server does not report its timeline: that is logged once, and there are no more looks.
- A replica starts after the failover: it has nothing to compare. It records the timeline.
"""

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Pins
from tenantcron.store.rows import failovers
from tenantcron.store.rows.failovers import LossRow

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0
_A_DAY = 86_400.0
_A_BATCH = 1_000
# One by one in the log; the table has all of them.
_LOGGED = 100


class FailoverWatch:
    """Compares the server's timeline with the last one."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._timeline: int | None = None

    async def look(self) -> float:
        """Look once; return for how many seconds there is nothing more to do."""
        try:
            timeline = await self._read()
        except DBAPIError as error:
            log.warning("timeline_unknown", error=first_line(error.orig))
            return _A_DAY
        before, lost = self._timeline, 0
        if before is not None and timeline != before:
            lost = await self._record_losses(timeline)
        if timeline != before:
            await self._notice(timeline, lost)
            self._timeline = timeline
        return LOOK_SECONDS

    async def _read(self) -> int:
        # Read-write, so that a standby is noticed; nothing else is needed for a number.
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
        for start in range(0, len(remembered), _A_BATCH):
            async with replica.database.transaction(by_key=True) as connection:
                found += await failovers.record_losses(
                    connection,
                    remembered[start : start + _A_BATCH],
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
