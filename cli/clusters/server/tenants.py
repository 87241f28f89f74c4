"""Tenants on a server."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from tenantcron.cli.clusters.platform import TenantLimitChanges
from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.client import platform, tenants
from tenantcron.core.labels import LabelChanges
from tenantcron.core.names import TenantId
from tenantcron.service.responses.platform_shapes import DetachedResponse, RefreshResponse
from tenantcron.service.responses.shapes import (
    DeprovisionedResponse,
    TenantDetailsResponse,
    TenantResponse,
)


@dataclass(frozen=True, slots=True)
class ServerTenants:
    """The tenants of a server."""

    caller: ServerCaller

    async def pages(self, labels: Sequence[str]) -> AsyncIterator[Sequence[TenantResponse]]:
        """Yield all tenants by id, page by page; a label is `key` or `key=value`."""
        async for page in self.caller.pages(tenants.list_all(labels=labels)):
            if page:
                yield page

    async def show(self, tenant: TenantId) -> TenantDetailsResponse:
        """Return a tenant with its identities."""
        return await self.caller.send(tenants.show(tenant))

    async def create(
        self,
        tenant: TenantId,
        limits: TenantLimitChanges,
        quotas: TenantLimitChanges,
        labels: LabelChanges,
        schema: str | None,
    ) -> TenantResponse:
        """Create a tenant."""
        call = tenants.create(
            tenant, limits=limits, quotas=quotas, labels=labels.values, schema=schema
        )
        return await self.caller.send(call)

    async def suspend(self, tenant: TenantId, reason: str) -> TenantResponse:
        """Suspend a tenant."""
        return await self.caller.send(tenants.suspend(tenant, reason))

    async def resume(self, tenant: TenantId, reason: str | None) -> TenantResponse:
        """Resume a tenant."""
        return await self.caller.send(tenants.resume(tenant, reason))

    async def deprovision(
        self, tenant: TenantId, reason: str, *, drop_schema: bool
    ) -> DeprovisionedResponse:
        """Deprovision a tenant; return what was kept, and why."""
        return await self.caller.send(tenants.deprovision(tenant, reason, drop_schema=drop_schema))

    async def set_limits(
        self, tenant: TenantId, limits: TenantLimitChanges, quotas: TenantLimitChanges
    ) -> TenantResponse:
        """Set limits and quotas; None restores the default."""
        return await self.caller.send(tenants.update(tenant, limits=limits, quotas=quotas))

    async def set_labels(self, tenant: TenantId, labels: LabelChanges) -> TenantResponse:
        """Set and remove labels."""
        changes: dict[str, str | None] = {**labels.values, **dict.fromkeys(labels.removed)}
        return await self.caller.send(tenants.update(tenant, labels=changes))

    async def refresh(self, max_missing: int | None, *, check: bool) -> RefreshResponse:
        """Sync the tenants with the tenant source of the server, or only compare them."""
        call = platform.refresh_tenants(check=check, max_missing=max_missing)
        return await self.caller.send(call)

    async def detach(self) -> DetachedResponse:
        """Remove the tenant source."""
        return await self.caller.send(platform.detach_tenant_source())
