"""The health of the cluster, as the command `health` and the API report it.

If a lock on a table blocks the reads, only the sessions that hold locks are reported. Finding them
needs no table.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.core.settings import Settings, has_keys
from tenantcron.scheduler.inspect.cluster_status import ClusterStatus, read_cluster_status
from tenantcron.scheduler.inspect.findings import Finding
from tenantcron.scheduler.inspect.health import examine
from tenantcron.scheduler.inspect.health_locks import locked_findings
from tenantcron.service.responses.health import finding_as_json, health_as_json
from tenantcron.service.responses.shapes import HealthResponse
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.lock_waits import exclusive_locks, is_lock_timeout

# Per statement, so that a check returns within 5 s even if a table is locked.
_LOCK_WAIT: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The findings, and the status that they are derived from; None if a lock blocks reading it."""

    status: ClusterStatus | None
    findings: tuple[Finding, ...]

    def as_json(self) -> HealthResponse:
        """Return the report as JSON."""
        if self.status is None:
            findings = [finding_as_json(finding) for finding in self.findings]
            return {"healthy": not findings, "findings": findings}
        return health_as_json(self.status, self.findings)


async def check_health(
    database: Database, settings: Settings, *, reading: Database | None = None
) -> HealthReport:
    """Check the cluster; `reading` restricts what a caller of the API sees of it."""
    try:
        status = await _status(database, reading or database, settings)
    except DBAPIError as error:
        if not is_lock_timeout(error):
            raise
        return HealthReport(None, tuple(locked_findings(await exclusive_locks(database))))
    return HealthReport(status, tuple(examine(status)))


async def _status(database: Database, reading: Database, settings: Settings) -> ClusterStatus:
    async with reading.impatient(_LOCK_WAIT).transaction() as connection:
        status = await read_cluster_status(connection, settings.lease, None)
    return replace(
        status, signing_fault=await _signing_fault(database.impatient(_LOCK_WAIT), settings)
    )


async def _signing_fault(database: Database, settings: Settings) -> str | None:
    if not has_keys(settings):
        return None
    # Imported only if there are keys: cryptography takes long to load.
    from tenantcron.scheduler.tokens.key_material import KeyMaterial  # noqa: PLC0415 -- as above
    from tenantcron.scheduler.tokens.signing_keys import (  # noqa: PLC0415 -- as above
        SigningKeys,
        signing_fault,
    )

    return await signing_fault(SigningKeys(database, KeyMaterial(settings), Attribution(None)))
