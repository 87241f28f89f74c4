"""Tenants in a database."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.cli.clusters.platform import TenantLimitChanges
from tenantcron.core.labels import LabelChanges, read_filter
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import schema_name
from tenantcron.service.responses.platform_shapes import DetachedResponse, RefreshResponse
from tenantcron.service.responses.shapes import (
    DeprovisionedResponse,
    TenantDetailsResponse,
    TenantResponse,
)
from tenantcron.service.responses.source_refresh import refresh_as_json
from tenantcron.service.responses.tenants import tenant_as_json, tenant_details_as_json
from tenantcron.service.tenant_source import SourceSync
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import TenantFilter, TenantLimits
from tenantcron.tenants.registry import (
    Registry,
    find_declared_quotas,
    find_identities,
    find_kept,
    find_tenant,
)

TENANTS_A_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class DatabaseTenants:
    """The tenants of a database."""

    caller: LocalCaller

    async def pages(self, labels: Sequence[str]) -> AsyncIterator[Sequence[TenantResponse]]:
        """Yield all tenants by id, page by page; each page is read in its own transaction."""
        wanted, after = TenantFilter(labels=[read_filter(text) for text in labels]), None
        while True:
            async with self.caller.database.transaction() as connection:
                page = await tenants.page(connection, wanted, after=after, limit=TENANTS_A_PAGE)
            if page:
                yield [tenant_as_json(row) for row in page]
            if len(page) < TENANTS_A_PAGE:
                return
            after = page[-1].id

    async def show(self, tenant: TenantId) -> TenantDetailsResponse:
        """Return a tenant with its identities."""
        database = self.caller.database
        row = await find_tenant(database, tenant)
        identities = await find_identities(database, tenant)
        return tenant_details_as_json(row, identities, await find_declared_quotas(database))

    async def create(
        self,
        tenant: TenantId,
        limits: TenantLimitChanges,
        quotas: TenantLimitChanges,
        labels: LabelChanges,
        schema: str | None,
    ) -> TenantResponse:
        """Create a tenant."""
        row = await self._registry().create(
            tenant,
            _limits(limits, quotas),
            labels=labels,
            schema=None if schema is None else schema_name(schema),
            pattern=self.caller.settings.schema_pattern,
        )
        return tenant_as_json(row)

    async def suspend(self, tenant: TenantId, reason: str) -> TenantResponse:
        """Suspend a tenant."""
        return tenant_as_json(await self._registry().suspend(tenant, reason))

    async def resume(self, tenant: TenantId, reason: str | None) -> TenantResponse:
        """Resume a tenant."""
        return tenant_as_json(await self._registry().resume(tenant, reason))

    async def deprovision(
        self, tenant: TenantId, reason: str, *, drop_schema: bool
    ) -> DeprovisionedResponse:
        """Deprovision a tenant; return what was kept, and why."""
        row = await self._registry().deprovision(tenant, reason, drop_schema=drop_schema)
        kept = await find_kept(self.caller.database, row) if drop_schema else []
        return {**tenant_as_json(row), "kept": list(kept)}

    async def set_limits(
        self, tenant: TenantId, limits: TenantLimitChanges, quotas: TenantLimitChanges
    ) -> TenantResponse:
        """Set limits and quotas; None restores the default."""
        return tenant_as_json(await self._registry().set_limits(tenant, _limits(limits, quotas)))

    async def set_labels(self, tenant: TenantId, labels: LabelChanges) -> TenantResponse:
        """Set and remove labels."""
        return tenant_as_json(await self._registry().change_labels(tenant, labels))

    async def refresh(self, max_missing: int | None, *, check: bool) -> RefreshResponse:
        """Sync the tenants with the tenant source, or only compare them."""
        sync = self._sync()
        name = sync.source().name
        done = await (sync.check(max_missing) if check else sync.refresh(max_missing))
        return refresh_as_json(name, done, is_check=check)

    async def detach(self) -> DetachedResponse:
        """Remove the tenant source."""
        return await self._sync().detach()

    def _registry(self) -> Registry:
        return Registry(self.caller.database, self.caller.who)

    def _sync(self) -> SourceSync:
        return SourceSync(self.caller.database, self.caller.settings, self.caller.who)


def _limits(given: TenantLimitChanges, quotas: TenantLimitChanges) -> TenantLimits:
    limits = TenantLimits()
    if "max_schedules" in given:
        limits["max_schedules"] = given["max_schedules"]
    if "max_concurrent" in given:
        limits["max_concurrent"] = given["max_concurrent"]
    if "weight" in given:
        limits["weight"] = given["weight"]
    if quotas:
        limits["quotas"] = quotas
    return limits
