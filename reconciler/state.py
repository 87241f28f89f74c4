"""The live state of tenants in the database, read for one tenant or many."""

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
# The server reads some tenants while this process handles others.
TRANSACTIONS_AT_A_TIME = 3


@dataclass(frozen=True, slots=True)
class LiveState:
    """The current state of a tenant; empty if the tenant does not exist."""

    tenant: TenantRow | None = None
    version: VersionRow | None = None
    live: Sequence[Definition] = ()
    # By schedule name; a pause may have ended.
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    # By schedule name, for schedules that do not fire, if they were read.
    faults: Mapping[str, str] = field(default_factory=dict)
    # By schedule name, for schedules that no manifest declares, if they were read.
    providers: Mapping[str, str] = field(default_factory=dict)
    # Why the tenant's schema cannot be read, if it cannot.
    broken: str | None = None
    # Whether the current transaction created the tenant.
    is_new: bool = False

    @property
    def revision(self) -> int | None:
        """The committed revision of the tenant; None if no tenant is committed."""
        return None if self.tenant is None or self.is_new else self.tenant.schedule_revision

    @property
    def number(self) -> int:
        """The number of the last applied version; 0 if there is none."""
        return self.version.version if self.version else 0


async def read_state(connection: AsyncConnection, tenant: TenantRow) -> LiveState:
    """Read the state of a tenant whose row is locked or was just read."""
    versions = await manifest_versions.latest(connection, [tenant.id])
    live = await tenant_schedules.read(connection, tenant.id, tenant.schema_name)
    paused = await schedule_cursors.pauses(connection, [tenant.id])
    return _with_live(LiveState(tenant, versions.get(tenant.id)), live, paused)


def _with_live(state: LiveState, live: LiveSchedules, paused: Mapping[UUID, Pause]) -> LiveState:
    """Add the schedules; definitions are parsed only for the few tenants with pauses."""
    stored = Stored(live.definitions, live.count)
    ids = map(UUID, live.ids.split()) if paused else ()
    pauses = {
        stored[index].schedule_name: paused[schedule_id]
        for index, schedule_id in enumerate(ids)
        if schedule_id in paused
    }
    return replace(state, live=stored, pauses=pauses)


async def read_states(
    database: Database, tenant_ids: Sequence[TenantId]
) -> dict[TenantId, LiveState]:
    """Read the state of a fleet, with a few statements per batch of tenants.

    A single transaction must not read all tenants: it holds a lock on each table that it has read,
    and the lock table of the server has room for a few thousand.
    """
    slots = asyncio.Semaphore(TRANSACTIONS_AT_A_TIME)

    async def read(batch: Sequence[TenantId]) -> dict[TenantId, LiveState]:
        async with slots, database.transaction() as connection:
            return await _read_batch(connection, batch)

    starts = range(0, len(tenant_ids), TENANTS_A_TRANSACTION)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(read(tenant_ids[start : start + TENANTS_A_TRANSACTION]))
                for start in starts
            ]
    except ExceptionGroup as failed:
        # All transactions fail for the same reason, such as a lost server: raise the first error.
        raise failed.exceptions[0] from failed
    return {tenant: state for task in tasks for tenant, state in task.result().items()}


async def _read_batch(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, LiveState]:
    found = await tenants.find_many(connection, tenant_ids)
    versions = await manifest_versions.latest(connection, tenant_ids)
    schemas = {
        tenant.id: tenant.schema_name
        for tenant in found.values()
        if tenant.status is not TenantStatus.DEPROVISIONED
    }
    fleet = await tenant_schedules.read_many(connection, schemas)
    paused = await schedule_cursors.pauses(connection, tenant_ids)
    states = {
        tenant_id: LiveState(
            found.get(tenant_id), versions.get(tenant_id), broken=fleet.broken.get(tenant_id)
        )
        for tenant_id in tenant_ids
    }
    read = {
        tenant_id: _with_live(states[tenant_id], live, paused)
        for tenant_id, live in fleet.live.items()
    }
    return states | read
