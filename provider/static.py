"""StaticProvider: a few fixed schedules of the platform itself, from its settings.

It returns all of them every time: they are few, and comparing is cheap. Settings have no time of
change, so a new schedule, or one whose timetable has changed, counts from the refresh that notices
it. All replicas must have the same settings; while they differ, as in a rolling deploy, the last
refresh wins.

- A tenant's own schedule takes precedence over a static one of the same name: the static one is
  skipped and reported.
- A tenant that does not exist is reported. A deprovisioned one has no schedules.
- A schedule that is removed from the settings is deleted: tenants that still have cursors of this
  provider are compared, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.provider.protocol import TENANTS_A_BATCH, ProvidedSchedule, ProvidedTenant
from tenantcron.provider.static_settings import StaticSchedule, read_entries
from tenantcron.provider.tenant_schedules import read_schedules
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import schedule_cursors, tenants
from tenantcron.store.rows.schedule_rows import FleetSchedules
from tenantcron.store.rows.tenants import Scope, Synced, TenantRow, TenantStatus
from tenantcron.store.steps import glances

_NAMESPACE = UUID("b52f4f35-4a5e-5b8a-8f63-0d3f2a9a6c02")


@dataclass(frozen=True, slots=True)
class StaticProvider:
    """Provides the schedules of the settings."""

    schedules: tuple[StaticSchedule, ...]
    name: str = "static"

    async def has_moved(self, database: Database) -> bool:
        """Whether there is anything to compare, in the settings or in the database."""
        return bool(self.schedules) or await glances.anything_provided(database, self.name)

    async def tenants(
        self,
        connection: AsyncConnection,
        scope: Scope,  # noqa: ARG002 -- all of them in every scope
        after: TenantId | None,
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants that have static schedules or had some, locked."""
        before = await schedule_cursors.tenants_of(connection, self.name)
        ids = sorted({*before, *(schedule.tenant for schedule in self.schedules)})
        batch = [tenant_id for tenant_id in ids if after is None or tenant_id > after]
        batch = batch[:TENANTS_A_BATCH]
        found = await tenants.lock_many(connection, batch) if batch else {}
        own = await read_schedules(connection, list(found.values()))
        return [self._provided(tenant_id, found.get(tenant_id), own) for tenant_id in batch]

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Do nothing: everything is compared every time."""

    def _provided(
        self, tenant_id: TenantId, tenant: TenantRow | None, own: FleetSchedules
    ) -> ProvidedTenant:
        if tenant is None:
            refused = f"static schedules: there is no tenant `{tenant_id}`"
            return ProvidedTenant(tenant_id, 0, refused=(refused,))
        if tenant.status is TenantStatus.DEPROVISIONED:
            return ProvidedTenant(tenant_id, 0)
        taken = {row.schedule_name for row in own.rows.get(tenant_id, ())}
        wanted = [schedule for schedule in self.schedules if schedule.tenant == tenant_id]
        free = (static for static in wanted if static.definition.schedule_name not in taken)
        schedules = tuple(map(_provided, free))
        return ProvidedTenant(tenant_id, 0, schedules, refused=_clashes(wanted, taken))


def static_provider(entries: Sequence[JsonObject]) -> StaticProvider:
    """Build the provider from the entries of the settings; a UsageError lists all problems."""
    return StaticProvider(read_entries(entries))


def _clashes(wanted: Iterable[StaticSchedule], taken: set[str]) -> tuple[str, ...]:
    names = (schedule.definition.schedule_name for schedule in wanted)
    return tuple(
        f"static schedule `{name}`: the tenant has its own schedule of this name"
        for name in names
        if name in taken
    )


def _provided(schedule: StaticSchedule) -> ProvidedSchedule:
    definition = schedule.definition
    return ProvidedSchedule(
        schedule_id=uuid5(_NAMESPACE, f"{schedule.tenant}|{definition.schedule_name}"),
        schedule_name=definition.schedule_name,
        saga_name=definition.saga_name,
        cron_expr=definition.cron_expr,
        timezone=definition.timezone,
        enabled=definition.enabled,
        definition=definition.definition,
        effective_from=None,
    )
