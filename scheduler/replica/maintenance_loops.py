"""The slow loops: housekeeping, and the periodic audit.

They read history and no step waits for them, so their statements have a longer timeout.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.metrics.counts import LastAudit
from tenantcron.scheduler.replica.audit_retention import RecordRetention
from tenantcron.scheduler.replica.housekeeping import clean_up, prepare_history
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection import times
from tenantcron.store.rows import schedule_cursors, workers

log = structlog.get_logger(__name__)

MINUTE, HOUR = 60.0, 3600.0
# The period that the scheduler audits. `tenantcron audit` covers all retained history.
_AUDITED = timedelta(days=1)
_STATEMENT_TIMEOUT = timedelta(minutes=5)
_DAY = timedelta(days=1)
_PAST_THE_HOUR = timedelta(minutes=17)
# A replica looks that often whether it has become the oldest one.
_TURN = 600.0


class MaintenanceLoops:
    """The steps of housekeeping and audit."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replace(replica, database=replica.database.patient(_STATEMENT_TIMEOUT))
        self._fast = replica.database
        self._records = RecordRetention()
        # When this replica audits next; None: not decided yet.
        self._audit_at: datetime | None = None

    @property
    def first_delay(self) -> float:
        """Seconds before the first housekeeping: replicas are busy at start, and start together."""
        return MINUTE * self._replica.random.random()

    async def keep_house(self) -> float:
        """Create and drop history partitions, and delete old records."""
        replica = self._replica
        await prepare_history(replica)
        await clean_up(replica)
        await self._records.step(replica)
        # In a rolling upgrade a replica with older time zones may have moved a cursor.
        await recompute_for_new_zones(self._fast, replica.clock())
        return HOUR * (1 + replica.random.random())

    async def audit(self) -> float:
        """Audit the last day when it is due; the oldest replica of the cluster does it."""
        interval = self._replica.settings.metrics_audit_interval
        if interval is None:
            return HOUR
        now = await self._turn()
        if now is None:
            # Another replica audits, and its findings are the current ones.
            self._replica.counts.audited = self._audit_at = None
            return _TURN
        if self._audit_at is None:
            self._audit_at = await self._next_audit(now, interval)
        left = (self._audit_at - now).total_seconds()
        if left > 0:
            return min(left, _TURN)
        await self._audit()
        self._audit_at = await self._next_audit(now + interval / 2, interval)
        return min((self._audit_at - now).total_seconds(), _TURN)

    async def _turn(self) -> datetime | None:
        """Return the time if this replica is the oldest, else None."""
        replica = self._replica
        async with replica.database.transaction() as connection:
            if await workers.is_oldest(connection, replica.worker_id):
                return await times.moment(connection, replica.clock())
        return None

    async def _next_audit(self, after: datetime, interval: timedelta) -> datetime:
        """Return the next time: at an interval of a day or more, in the quietest hour of a day."""
        if interval < _DAY:
            return after if self._audit_at is None else self._audit_at + interval
        async with self._replica.database.transaction() as connection:
            due = await schedule_cursors.due_by_hour(connection, after, after + _DAY)
        return quietest_hour(after, due)

    async def _audit(self) -> None:
        replica = self._replica
        kept = min(_AUDITED, replica.settings.retention)
        audited = await audit(replica.database, kept, at=replica.clock())
        findings = Counter[str]()
        for finding in audited.findings:
            findings[finding.code.value] += finding.count
        replica.counts.audited = LastAudit(audited.until, findings)
        if findings:
            log.error("audit_found", findings=dict(findings))


def quietest_hour(after: datetime, due: Mapping[int, int]) -> datetime:
    """Return the start of the hour of the next day in which the fewest schedules are due.

    The start has a distance to the full hour, at which most schedules fire.
    """
    first = after.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    hours = [first + timedelta(hours=number) for number in range(24)]
    quietest = min(hours, key=lambda hour: (due.get(hour.hour, 0), hour))
    return quietest + _PAST_THE_HOUR
