"""State: what the database holds for a tenant, read for one of them or for many at once."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.reconciler.document import Stored
from tenantcron.schedules.definition import Definition
from tenantcron.schedules.pause import Pause
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import manifest_versions, schedule_cursors, tenant_schedules, tenants
from tenantcron.store.rows.manifest_versions import VersionRow
from tenantcron.store.rows.tenant_schedules import LiveSchedules
from tenantcron.store.rows.tenants import TenantRow, TenantStatus

TENANTS_A_TRANSACTION = 50
# So that the server reads some tenants while others are looked at here.
TRANSACTIONS_AT_A_TIME = 3


@dataclass(frozen=True, slots=True)
class LiveState:
    """One tenant as it is now; all is empty for a tenant that does not exist."""

    tenant: TenantRow | None = None
    version: VersionRow | None = None
    live: Sequence[Definition] = ()
    # By the names of the schedules; a pause may have ended.
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    # By the names of the schedules that do not fire, where these were read, too.
    faults: Mapping[str, str] = field(default_factory=dict)
    # By the names of the schedules that no manifest declares, where these were read, too.
    providers: Mapping[str, str] = field(default_factory=dict)
    # Why the tenant's schema cannot be read, if so.
    broken: str | None = None
    # Made by the transaction that looks at it.
    is_new: bool = False

    @property
    def revision(self) -> int | None:
        """The tenant's revision as others see it, None if they see no tenant."""
        return None if self.tenant is None or self.is_new else self.tenant.schedule_revision

    @property
    def number(self) -> int:
        """The number of the version that was applied last, 0 if there is none."""
        return self.version.version if self.version else 0


async def read_state(connection: AsyncConnection, tenant: TenantRow) -> LiveState:
    """Read one tenant's state; its row is locked or was just read."""
    versions = await manifest_versions.latest(connection, [tenant.id])
    live = await tenant_schedules.read(connection, tenant.id, tenant.schema_name)
    paused = await schedule_cursors.pauses(connection, [tenant.id])
    return _with_live(LiveState(tenant, versions.get(tenant.id)), live, paused)


def _with_live(state: LiveState, live: LiveSchedules, paused: Mapping[UUID, Pause]) -> LiveState:
    """Add the schedules; few tenants have pauses, so most definitions need not be read for them."""
    stored = Stored(live.definitions, live.count)
    ids = map(UUID, live.ids.split()) if paused else ()
    pauses = {stored[at].schedule_name: paused[one] for at, one in enumerate(ids) if one in paused}
    return replace(state, live=stored, pauses=pauses)


async def read_states(
    database: Database, tenant_ids: Sequence[TenantId]
) -> dict[TenantId, LiveState]:
    """Read the state of a whole fleet with a handful of statements per some hundred tenants.

    One transaction must not read them all: it keeps a lock on each table that it has read, and the
    server has room for a few thousand.
    """
    slots = asyncio.Semaphore(TRANSACTIONS_AT_A_TIME)

    async def read(some: Sequence[TenantId]) -> dict[TenantId, LiveState]:
        async with slots, database.transaction() as connection:
            return await _read_some(connection, some)

    starts = range(0, len(tenant_ids), TENANTS_A_TRANSACTION)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(read(tenant_ids[start : start + TENANTS_A_TRANSACTION]))
                for start in starts
            ]
    except ExceptionGroup as failed:
        # What keeps one transaction from reading, such as a lost server, keeps the others, too.
        raise failed.exceptions[0] from failed
    return {tenant: state for task in tasks for tenant, state in task.result().items()}


async def _read_some(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, LiveState]:
    found = await tenants.find_many(connection, tenant_ids)
    versions = await manifest_versions.latest(connection, tenant_ids)
    schemas = {
        one.id: one.schema_name
        for one in found.values()
        if one.status is not TenantStatus.DEPROVISIONED
    }
    fleet = await tenant_schedules.read_many(connection, schemas)
    paused = await schedule_cursors.pauses(connection, tenant_ids)
    states = {
        tenant_id: LiveState(
            found.get(tenant_id), versions.get(tenant_id), broken=fleet.broken.get(tenant_id)
        )
        for tenant_id in tenant_ids
    }
    read = {one: _with_live(states[one], live, paused) for one, live in fleet.live.items()}
    return states | read
