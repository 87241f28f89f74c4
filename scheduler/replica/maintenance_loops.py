"""The slow loops: housekeeping, and the periodic audit.

They read history and no step waits for them, so their statements have a longer timeout.
"""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import structlog

from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.metrics.counts import LastAudit
from tenantcron.scheduler.replica.audit_retention import RecordRetention
from tenantcron.scheduler.replica.housekeeping import clean_up, prepare_history
from tenantcron.scheduler.replica.shared_state import Replica

log = structlog.get_logger(__name__)

MINUTE, HOUR = 60.0, 3600.0
# The period that the scheduler audits. `tenantcron audit` covers all retained history.
_AUDITED = timedelta(days=1)
_STATEMENT_TIMEOUT = timedelta(minutes=5)


class MaintenanceLoops:
    """The steps of housekeeping and audit."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replace(replica, database=replica.database.patient(_STATEMENT_TIMEOUT))
        self._fast = replica.database
        self._records = RecordRetention()

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
        """Audit the last day, if the settings have an interval for it."""
        replica, interval = self._replica, self._replica.settings.metrics_audit_interval
        if interval is None:
            return HOUR
        kept = min(_AUDITED, replica.settings.retention)
        audited = await audit(replica.database, kept, at=replica.clock())
        findings = Counter[str]()
        for finding in audited.findings:
            findings[finding.code.value] += finding.count
        replica.counts.audited = LastAudit(audited.until, findings)
        if findings:
            log.error("audit_found", findings=dict(findings))
        return interval.total_seconds()
