"""ScheduleProvider: where the scheduler gets its schedules.

A provider says what schedules there are; it knows nothing of occurrences. `refresh` asks it, batch
by batch, and brings the cursors in line. All calls of one batch happen in one transaction, which
the refresh owns:

1. `tenants` returns some tenants with all their schedules, and locks whatever keeps another replica
   from doing the same tenants at the same time.
2. The refresh writes the cursors.
3. `settle` is told what became of each tenant, so that the provider knows what the cursors follow.

Killed before the commit: the cursors are as before and the provider still has the tenants on its
list. Killed after it: all of it is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.store.engine import Database
from tenantcron.store.tenants import Scope, Synced

# A statement over more schemas costs more in planning than it saves in round trips.
TENANTS_A_BATCH = 50


class ProvidedSchedule(NamedTuple):
    """One schedule as its provider has it."""

    # The schedule's identity: whatever is deleted and made anew has another one.
    schedule_id: UUID
    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    # An object, unless a hand has put something else there.
    definition: JsonValue
    # Since when cron_expr, timezone and enabled are what they are. None: the provider cannot tell,
    # so that a timetable counts from the refresh that notices it.
    effective_from: datetime | None


@dataclass(frozen=True, slots=True)
class ProvidedTenant:
    """All schedules that a provider has for one tenant."""

    tenant_id: TenantId
    revision: int
    schedules: tuple[ProvidedSchedule, ...] = ()
    # Why the schedules cannot be read; then none are given, and the cursors are set aside.
    fault: str | None = None
    # Only for now: somebody holds a lock on them. The cursors go on as they are, and the tenant is
    # not settled.
    is_locked: bool = False
    # If the tenant has no cursors: since when it is here (again). None: its schedules tell.
    returned_at: datetime | None = None
    # What the provider has left out, and why, a sentence each.
    refused: tuple[str, ...] = ()


class ScheduleProvider(Protocol):
    """A source of schedules. It promises:

    - All or nothing per tenant: a tenant that is returned comes with all its schedules of this
      provider. What is missing has been deleted, and its cursor goes.
    - A tenant that cannot be read is returned with a `fault`, never without schedules and never as
      an exception: the others are served. Nobody is waited for who holds a lock on it.
    - At most `TENANTS_A_BATCH` tenants a call, by id and after the given one, an empty answer at
      the end; so whoever calls until then holds one batch in memory and ends, whatever fails or
      moves in the meantime.
    - A fixed number of statements a batch.
    - Whatever moves is returned in the scope MOVED until it is settled. NOTIFY is only a hint.
    - Safe on many replicas at once: nobody else is given the same tenant before the commit.
    """

    @property
    def name(self) -> str:
        """What the cursors of this provider say in `provider`; no provider touches another's."""

    async def has_moved(self, database: Database) -> bool:
        """Whether a refresh may find anything in the scope MOVED_OR_BROKEN; asked when idle."""

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants of the scope, locked."""

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Take note that the cursors follow these revisions now, or why they cannot."""
