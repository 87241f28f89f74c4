"""State: what the database holds for a tenant, read for one of them or for many at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.definition import Definition
from tenantcron.store import manifest_versions, schedule_cursors, tenant_schedules, tenants
from tenantcron.store.engine import Database
from tenantcron.store.manifest_versions import VersionRow
from tenantcron.store.schedule_cursors import Pause
from tenantcron.store.tenant_schedules import ScheduleRow
from tenantcron.store.tenants import TenantRow, TenantStatus

TENANTS_A_TRANSACTION = 200


@dataclass(frozen=True, slots=True)
class TenantState:
    """One tenant as it is now; all is empty for a tenant that does not exist."""

    tenant: TenantRow | None = None
    version: VersionRow | None = None
    rows: tuple[ScheduleRow, ...] = ()
    pauses: Mapping[UUID, Pause] = field(default_factory=dict)
    # Why the tenant's schema cannot be read, if so.
    broken: str | None = None
    # Made by the transaction that looks at it.
    is_new: bool = False

    @property
    def revision(self) -> int | None:
        """The tenant's revision as others see it, None if they see no tenant."""
        return None if self.tenant is None or self.is_new else self.tenant.schedule_revision

    @property
    def live(self) -> list[Definition]:
        """The definitions of the live rows."""
        return [define_row(row) for row in self.rows]

    @property
    def number(self) -> int:
        """The number of the version that was applied last, 0 if there is none."""
        return self.version.version if self.version else 0

    def pause_of(self, schedule: str) -> Pause | None:
        """Return the pause of a schedule, if it is paused."""
        if not self.pauses:
            return None
        ids = (row.id for row in self.rows if row.schedule_name == schedule)
        return next((self.pauses[one] for one in ids if one in self.pauses), None)


def define_row(row: ScheduleRow) -> Definition:
    """Return the part of a row that a manifest decides."""
    return Definition(
        schedule_name=row.schedule_name,
        saga_name=row.saga_name,
        cron_expr=row.cron_expr,
        timezone=row.timezone,
        enabled=row.enabled,
        definition=_object(row.definition),
    )


def _object(value: JsonValue) -> JsonObject:
    """Only a hand can have put something else into a row; it is shown, and put right."""
    return value if isinstance(value, dict) else {"(not an object)": value}


async def read_state(connection: AsyncConnection, tenant: TenantRow) -> TenantState:
    """Read one tenant's state; its row is locked or was just read."""
    versions = await manifest_versions.latest(connection, [tenant.id])
    rows = await tenant_schedules.read(connection, tenant.schema_name)
    paused = await schedule_cursors.pauses(connection, [tenant.id])
    return TenantState(tenant, versions.get(tenant.id), tuple(rows), paused)


async def read_states(
    database: Database, tenant_ids: Sequence[TenantId]
) -> dict[TenantId, TenantState]:
    """Read the state of a whole fleet with a handful of statements per some hundred tenants.

    One transaction must not read them all: it keeps a lock on each table that it has read, and the
    server has room for a few thousand.
    """
    states: dict[TenantId, TenantState] = {}
    for start in range(0, len(tenant_ids), TENANTS_A_TRANSACTION):
        async with database.transaction() as connection:
            some = tenant_ids[start : start + TENANTS_A_TRANSACTION]
            states |= await _read_some(connection, some)
    return states


async def _read_some(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, TenantState]:
    found = await tenants.find_many(connection, tenant_ids)
    versions = await manifest_versions.latest(connection, tenant_ids)
    schemas = {
        one.id: one.schema_name
        for one in found.values()
        if one.status is not TenantStatus.DEPROVISIONED
    }
    fleet = await tenant_schedules.read_many(connection, schemas)
    paused = await schedule_cursors.pauses(connection, tenant_ids)
    return {
        tenant_id: TenantState(
            found.get(tenant_id),
            versions.get(tenant_id),
            tuple(fleet.rows.get(tenant_id, ())),
            paused,
            fleet.broken.get(tenant_id),
        )
        for tenant_id in tenant_ids
    }


async def database_time(connection: AsyncConnection) -> datetime:
    """Return the database's time: the only clock that all replicas share."""
    now: datetime = (await connection.execute(select(func.now()))).scalar_one()
    return now
