"""TenantScheduleProvider: the schedules that manifests declare, from the tenants' schemas.

A tenant has changed if its `schedule_revision` differs from its `synced_revision`. The first
increases in the transaction that changes schedules, manual changes included; the second is updated
in the transaction that writes the cursors. So changes are found without a notification, and none
can be lost.

- The tenant's row is locked first, then its schedules are read: nothing older than the revision
  that is marked as synced can be read. A later commit increases the revision again.
- A locked row is skipped. Another replica is processing it, or an apply, which notifies when it
  commits.
- A schema that another session is dropping or altering is left for later: its cursors continue
  unchanged.
- A schema that cannot be read is marked as synced, too, with its fault. It is not tried again until
  it changes or a refresh asks for broken tenants, as the periodic one does.
- A deprovisioned tenant has no schedules.
- Schedules that exceed the bounds of the platform are quarantined; see `bounds`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.exc import DataError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.provider.protocol import TENANTS_A_BATCH, ProvidedSchedule, ProvidedTenant
from tenantcron.provider.schedule_limits import Bounds, quarantined
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import schedule_rows, tenants
from tenantcron.store.rows.schedule_rows import FleetSchedules, ScheduleRow
from tenantcron.store.rows.tenants import Scope, Synced, TenantRow, TenantStatus
from tenantcron.store.schema.batches import LOCKED
from tenantcron.store.steps import glances


@dataclass(frozen=True, slots=True)
class TenantScheduleProvider:
    """Provides the rows of `tenant_schedule` of all tenants."""

    # None: the rows are taken as they are.
    bounds: Bounds | None = None
    name: str = "tenant"

    async def has_moved(self, database: Database) -> bool:
        """Whether any tenant has changed, or could not be synced."""
        return await glances.anything_moved(database)

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants of the scope, locked."""
        rows = await tenants.lock_in_scope(connection, scope, after, TENANTS_A_BATCH)
        fleet = await read_schedules(connection, rows)
        return [_provided(row, fleet, self.bounds) for row in rows]

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Store which revisions are synced."""
        await tenants.set_synced(connection, synced)


async def read_schedules(connection: AsyncConnection, rows: Sequence[TenantRow]) -> FleetSchedules:
    """Read the schedules of all tenants that are not deprovisioned."""
    schemas = {
        row.id: row.schema_name for row in rows if row.status is not TenantStatus.DEPROVISIONED
    }
    try:
        return await schedule_rows.read_many(connection, schemas)
    except (DataError, ValueError):
        return await _read_one_by_one(connection, schemas)


async def _read_one_by_one(
    connection: AsyncConnection, schemas: dict[TenantId, str]
) -> FleetSchedules:
    """Find the tenant with unreadable values, such as a timestamp of infinity."""
    fleet = FleetSchedules({}, {})
    for tenant_id, schema in schemas.items():
        try:
            found = await schedule_rows.read_many(connection, {tenant_id: schema})
        except (DataError, ValueError) as error:
            cause = error.orig if isinstance(error, DataError) else error
            found = FleetSchedules({}, {tenant_id: first_line(cause)})
        fleet.rows.update(found.rows)
        fleet.broken.update(found.broken)
    return fleet


def _provided(tenant: TenantRow, fleet: FleetSchedules, bounds: Bounds | None) -> ProvidedTenant:
    fault = fleet.broken.get(tenant.id)
    rows = () if fault else fleet.rows.get(tenant.id, ())
    schedules = tuple(_schedule(row) for row in rows)
    if bounds is not None:
        cap = bounds.cap_of(tenant.id, tenant.max_schedules)
        schedules = quarantined(schedules, bounds.floor, cap)
    return ProvidedTenant(
        tenant_id=tenant.id,
        revision=tenant.schedule_revision,
        schedules=schedules,
        fault=fault,
        is_locked=fault == LOCKED,
        # Synced before and without cursors now: it was deprovisioned. Its last update brought it
        # back.
        returned_at=tenant.updated_at if tenant.synced_revision else None,
    )


def _schedule(row: ScheduleRow) -> ProvidedSchedule:
    return ProvidedSchedule(
        schedule_id=row.id,
        schedule_name=row.schedule_name,
        saga_name=row.saga_name,
        cron_expr=row.cron_expr,
        timezone=row.timezone,
        enabled=row.enabled,
        definition=row.definition,
        effective_from=row.effective_from,
    )
