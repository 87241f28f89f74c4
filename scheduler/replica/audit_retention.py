"""Retention of audit records and manifest versions, a few tenants at a time.

Each tenant has its own audit table, so no single statement covers all of them. The oldest replica
makes a pass over all tenants. Each step runs a bounded number of transactions, each for a bounded
number of tenants and rows, and the next step continues from there. After a restart the pass starts
from the beginning, which costs only reads.

Audit records are kept at least as long as executions, because `audit` reads from them when
timetables changed. The database refuses to delete records that are younger than 30 days, and
versions that are in force or that schedules refer to (see the migration `0013_record_retention`).
"""

from dataclasses import replace
from typing import Final

import structlog
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.exc import ProgrammingError

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.backends import replace_connection
from tenantcron.store.rows import workers
from tenantcron.store.rows.audit_retention import (
    Forgotten,
    Kept,
    forget_of_control,
    forget_of_tenants,
)

log = structlog.get_logger(__name__)

# Housekeeping runs every hour or two. Each run covers 1,000 tenants.
_TRANSACTIONS_A_STEP: Final = 20


class RecordRetention:
    """A replica's pass over all tenants."""

    def __init__(self) -> None:
        # The last tenant that was processed. None: the pass begins with the control schema.
        self._after: TenantId | None = None

    async def step(self, replica: Replica) -> None:
        """Delete some of the old records; the pass ends with the last tenant."""
        total = Forgotten()
        try:
            for _ in range(_TRANSACTIONS_A_STEP):
                forgotten = await self._forget(replica)
                if forgotten is None:
                    break
                total = _sum(total, forgotten)
        except ProgrammingError as error:
            if not isinstance(error.orig, InsufficientPrivilege):
                raise
            log.warning("records_kept", hint="run deploy/sql/grants.sql again, after migrate")
        if total.audit_records or total.manifest_versions:
            log.info(
                "records_forgotten",
                audit_records=total.audit_records,
                manifest_versions=total.manifest_versions,
            )

    async def _forget(self, replica: Replica) -> Forgotten | None:
        """Run one transaction of the pass; return None if there is nothing to do now."""
        kept = _kept(replica.settings)
        async with replica.database.transaction() as connection:
            if not await workers.is_oldest(connection, replica.worker_id):
                return None
            if self._after is None:
                forgotten = await forget_of_control(connection, kept)
            else:
                forgotten = await forget_of_tenants(connection, self._after, kept)
                # The backend would cache the catalog entries of every tenant's tables.
                replace_connection(connection)
        if forgotten.is_partial:
            return forgotten
        self._after = forgotten.last
        return None if self._after is None else forgotten


def _kept(settings: Settings) -> Kept:
    audit = max(settings.audit_retention, settings.retention)
    return Kept(audit, settings.manifest_versions_kept)


def _sum(total: Forgotten, more: Forgotten) -> Forgotten:
    return replace(
        total,
        audit_records=total.audit_records + more.audit_records,
        manifest_versions=total.manifest_versions + more.manifest_versions,
    )
