"""The tenant registry: the only writer of the `tenant` table.

A tenant is created active, may be suspended and resumed, and ends deprovisioned. Deprovisioning
keeps its tables unless they are dropped explicitly; while they are kept, the tenant can be resumed.
Every step locks the tenant's row, sets the actor, and is recorded by the database. The schedules of
a deprovisioned tenant do not count, so its revision increases when it is deprovisioned and when it
returns. A tenant's system identities are created, suspended and ended with it by triggers, in the
same transaction.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.labels import LabelChanges
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.core.schema_names import SchemaName, SchemaPattern
from tenantcron.core.suggest import close_match
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, identities, limits, tenant_sources, tenants
from tenantcron.store.rows.identities import IdentityRow
from tenantcron.store.rows.tenants import TenantLimits, TenantRow, TenantStatus
from tenantcron.store.schema import tenant_objects
from tenantcron.store.steps import claiming
from tenantcron.tenants.creation import create_tenant, create_tenant_on
from tenantcron.tenants.errors import SourcedTenantError, TenantError, UnknownTenantError
from tenantcron.tenants.removal import remove_tables, what_is_kept

_ACTIVE, _SUSPENDED, _GONE = TenantStatus


@dataclass(frozen=True, slots=True)
class Registry:
    """Changes tenants on behalf of an actor."""

    database: Database
    who: Attribution

    async def create(
        self,
        tenant: TenantId,
        limits: TenantLimits,
        *,
        labels: LabelChanges | None = None,
        schema: SchemaName | None = None,
        pattern: SchemaPattern | None = None,
    ) -> TenantRow:
        """Create a tenant, on an existing schema or on the one that the pattern names."""
        async with self._acting() as connection:
            if schema is None:
                created = await create_tenant(connection, tenant, pattern)
            else:
                created = await create_tenant_on(connection, tenant, schema)
            if created is None:
                raise TenantError(f"tenant `{tenant}` exists already")
            await tenants.set_limits(connection, tenant, limits)
            if labels is not None and labels.values:
                await tenants.set_labels(connection, tenant, labels.apply_to({}))
            return await _locked(connection, tenant)

    async def suspend(self, tenant: TenantId, reason: str | None) -> TenantRow:
        """Suspend a tenant: its executions do not start."""
        return await self._move(tenant, {_ACTIVE}, _SUSPENDED, reason)

    async def resume(self, tenant: TenantId, reason: str | None) -> TenantRow:
        """Resume a tenant; past occurrences are not fired."""
        return await self._move(tenant, {_SUSPENDED, _GONE}, _ACTIVE, reason)

    async def deprovision(
        self, tenant: TenantId, reason: str | None, *, drop_schema: bool
    ) -> TenantRow:
        """Deprovision a tenant; its tables and its schema are kept unless `drop_schema` is set."""
        async with self._acting() as connection:
            row = await _locked(connection, tenant)
            if row.missing_since is None:
                await _refuse_sourced(connection, row, "status")
            drops = drop_schema and await _has_tables(connection, row)
            if row.status is _GONE and not drops:
                dropped = ", and its tables dropped" if drop_schema else ""
                raise TenantError(f"tenant `{tenant}` has been deprovisioned already{dropped}")
            if drops:
                await remove_tables(connection, row)
            await tenants.set_status(connection, tenant, _GONE, reason)
            if row.missing_since is not None:
                await tenant_sources.release(connection, tenant)
            await tenants.raise_revision(connection, tenant)
            return await _locked(connection, tenant)

    async def set_limits(self, tenant: TenantId, limits: TenantLimits) -> TenantRow:
        """Set a tenant's own limits."""
        async with self._acting() as connection:
            row = await _locked(connection, tenant)
            if "weight" in limits:
                await _refuse_sourced(connection, row, "weight")
            await tenants.set_limits(connection, tenant, limits)
            # Pending executions may have a slot now.
            await claiming.notify(connection, claiming.LIMITS)
            return await _locked(connection, tenant)

    async def change_labels(self, tenant: TenantId, changes: LabelChanges) -> TenantRow:
        """Set and remove labels of a tenant; other labels stay."""
        async with self._acting() as connection:
            row = await _locked(connection, tenant)
            await _refuse_sourced(connection, row, "labels")
            labels = changes.apply_to(row.labels)
            if labels == row.labels:
                return row
            await tenants.set_labels(connection, tenant, labels)
            return await _locked(connection, tenant)

    async def _move(
        self,
        tenant: TenantId,
        origins: Collection[TenantStatus],
        to: TenantStatus,
        reason: str | None,
    ) -> TenantRow:
        async with self._acting() as connection:
            row = await _locked(connection, tenant)
            await _refuse_sourced(connection, row, "status")
            if row.status not in origins:
                raise TenantError(f"tenant `{tenant}` is {row.status}, so it cannot become {to}")
            if row.status is _GONE and not await _has_tables(connection, row):
                raise TenantError(f"the tables of `{tenant}` were dropped: it cannot come back")
            await tenants.set_status(connection, tenant, to, reason)
            if row.status is _GONE:
                await tenants.raise_revision(connection, tenant)
            return await _locked(connection, tenant)

    @asynccontextmanager
    async def _acting(self) -> AsyncIterator[AsyncConnection]:
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            yield connection


async def find_tenant(database: Database, tenant: TenantId) -> TenantRow:
    """Return a tenant that must exist."""
    async with database.transaction() as connection:
        row = await tenants.find(connection, tenant)
        if row is None:
            raise await _unknown(connection, tenant)
    return row


async def find_kept(database: Database, row: TenantRow) -> list[str]:
    """Return what still exists of a tenant although its tables were dropped, and why."""
    async with database.transaction() as connection:
        return await what_is_kept(connection, row)


async def find_identities(database: Database, tenant: TenantId) -> list[IdentityRow]:
    """Return the identities under which schedulers act for a tenant."""
    async with database.transaction() as connection:
        return await identities.of_tenant(connection, tenant)


async def find_declared_quotas(database: Database) -> DeclaredQuotas:
    """Return the quotas that the policy of the schedulers declares."""
    async with database.transaction() as connection:
        return await limits.read_quotas(connection)


async def list_tenants(database: Database) -> list[TenantRow]:
    """Return all tenants by id."""
    async with database.transaction() as connection:
        return list(await tenants.list_all(connection))


async def _has_tables(connection: AsyncConnection, row: TenantRow) -> bool:
    return await tenant_objects.has_tenant_tables(connection, row.schema_name)


async def _locked(connection: AsyncConnection, tenant: TenantId) -> TenantRow:
    row = await tenants.lock(connection, tenant)
    if row is None:
        raise await _unknown(connection, tenant)
    return row


async def _refuse_sourced(connection: AsyncConnection, row: TenantRow, column: str) -> None:
    """Refuse a change that the next refresh would revert. Limits never belong to the source."""
    source = await tenant_sources.read(connection) if row.sourced else None
    if source is None or (column != "status" and column not in source.columns):
        return
    raise SourcedTenantError(
        f"the {column} of tenant `{row.id}` belongs to the tenant source ({source.name}): change "
        "it there, then `tenantcron tenant refresh`"
    )


async def _unknown(connection: AsyncConnection, tenant: TenantId) -> UnknownTenantError:
    meant = close_match(tenant, (row.id for row in await tenants.list_all(connection)))
    hint = f"did you mean `{meant}`?" if meant else "`tenantcron tenant list` shows all"
    return UnknownTenantError(f"tenant `{tenant}` does not exist: {hint}")
