"""ScheduleProvider: where the scheduler gets its schedules from.

A provider returns schedules; it knows nothing about occurrences. `refresh` queries it, batch by
batch, and syncs the cursors. All calls of one batch happen in one transaction, which the refresh
owns:

1. `tenants` returns some tenants with all their schedules, and takes locks that keep other replicas
   from processing the same tenants at the same time.
2. The refresh writes the cursors.
3. `settle` receives the result for each tenant, so the provider knows which revisions are synced.

Killed before the commit: the cursors are unchanged and the provider still returns the tenants.
Killed after it: everything is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.tenants import Scope, Synced

# A statement over more schemas costs more in planning than it saves in round trips.
TENANTS_A_BATCH = 50


class ProvidedSchedule(NamedTuple):
    """One schedule of a provider."""

    # The identity of the schedule: one that is deleted and created again has a new one.
    schedule_id: UUID
    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    # An object, unless a manual change has written something else.
    definition: JsonValue
    # The time of the last change of cron_expr, timezone and enabled. None: unknown, so a timetable
    # counts from the refresh that notices it.
    effective_from: datetime | None
    # Why it must not fire, although its timetable is valid; then its cursor is quarantined.
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class ProvidedTenant:
    """All schedules that a provider has for one tenant."""

    tenant_id: TenantId
    revision: int
    schedules: tuple[ProvidedSchedule, ...] = ()
    # Why the schedules cannot be read; then there are none, and the cursors are quarantined.
    fault: str | None = None
    # Temporary: another session holds a lock on them. The cursors continue unchanged, and the
    # tenant is not marked as synced.
    is_locked: bool = False
    # If the tenant has no cursors: when it was created or returned. None: its schedules define it.
    returned_at: datetime | None = None
    # The schedules that the provider skipped, and why, one sentence each.
    refused: tuple[str, ...] = ()


class ScheduleProvider(Protocol):
    """A source of schedules. It guarantees:

    - All or nothing per tenant: a returned tenant comes with all its schedules of this provider. A
      missing schedule has been deleted, and its cursor is removed.
    - A tenant that cannot be read is returned with a `fault`, never without schedules and never as
      an exception, so the others are served. A lock on it is never waited for.
    - At most `TENANTS_A_BATCH` tenants per call, ordered by id and after the given one, and an
      empty result at the end. So a caller holds one batch in memory and terminates, whatever fails
      or changes in the meantime.
    - A fixed number of statements per batch.
    - Changed tenants are returned in the scope MOVED until `settle` marks them as synced. NOTIFY is
      only a hint.
    - Safe with many replicas: no other replica gets the same tenant before the commit.
    """

    @property
    def name(self) -> str:
        """The value of `provider` in its cursors; no provider touches the cursors of another."""

    async def has_moved(self, database: Database) -> bool:
        """Whether a refresh may find anything in the scope MOVED_OR_BROKEN; called when idle."""

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants of the scope, locked."""

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Record that the cursors are synced with these revisions, or why they are not."""
