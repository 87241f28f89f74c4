"""The tenant source: sync the tenants with it, compare them, or detach it."""

from dataclasses import dataclass
from uuid import uuid4

from tenantcron.actor.attribution import Attribution
from tenantcron.core.errors import UsageError
from tenantcron.core.settings import Settings
from tenantcron.service.responses.platform_shapes import DetachedResponse
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, tenant_sources
from tenantcron.tenants.source.reading import TenantSource, tenant_source
from tenantcron.tenants.source.refresh import Refresher, SourceRefresh


@dataclass(frozen=True, slots=True)
class SourceSync:
    """Syncs tenants with the source of the settings, on behalf of an actor."""

    database: Database
    settings: Settings
    who: Attribution

    def source(self) -> TenantSource:
        """Return the source of the settings; raise a UsageError if there is none."""
        text = self.settings.tenant_source
        if text is None:
            raise UsageError(
                "there is no tenant source: set tenant_source in [settings] of tenantcron.toml, "
                "see docs/tenant-source.md"
            )
        return tenant_source(text)

    async def check(self, max_missing: int | None) -> SourceRefresh:
        """Compare the tenants with the source; nothing is written."""
        compared, plan = await self._refresher().plan(max_missing)
        return SourceRefresh(plan, compared.given, (), plan.problems)

    async def refresh(self, max_missing: int | None) -> SourceRefresh:
        """Take the turn from a scheduler that may be refreshing, and refresh."""
        token, refresher = uuid4(), self._refresher()
        async with self.database.transaction() as connection:
            max_age = self.settings.tenant_source_max_age
            await tenant_sources.declare(connection, refresher.source.name, max_age, None)
            await tenant_sources.take_turn(connection, token, None, None)
        return await refresher.refresh(token, max_missing)

    async def detach(self) -> DetachedResponse:
        """Remove the source; its tenants stay as they are."""
        if self.settings.tenant_source is not None:
            raise UsageError(
                "the setting tenant_source is still set, and a scheduler that has it would attach "
                "the source again: remove it from all settings first"
            )
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            released = await tenant_sources.detach(connection)
        return {"detached": True, "released": released}

    def _refresher(self) -> Refresher:
        return Refresher(self.database, self.source(), self.who, self.settings.schema_pattern)
