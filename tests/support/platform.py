"""An existing platform: its table of tenants, synced by tenantcron."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from psycopg.rows import DictRow
from support.fleet import DEPLOYER
from support.processes import query

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenant_sources
from tenantcron.tenants.source.reading import tenant_source
from tenantcron.tenants.source.refresh import Refresher, SourceRefresh

MAX_AGE = Settings(folder=Path()).tenant_source_max_age
TABLE = """
CREATE TABLE public.tenants (
    id text NOT NULL, schema_name text, status text DEFAULT 'active', status_reason text,
    weight integer, labels jsonb
)
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform's database, on which tenantcron is installed."""

    database: Database
    url: str

    def sql(self, statement: str) -> list[DictRow]:
        """Run a statement as the platform does."""
        return query(self.url, statement)

    def add(self, *tenants: str) -> None:
        """Add active tenants to the platform's registry."""
        values = ", ".join(f"('{tenant}')" for tenant in tenants)
        self.sql(f"INSERT INTO public.tenants (id) VALUES {values}")  # noqa: S608 -- from tests

    def refresher(self, source: str = "public.tenants") -> Refresher:
        """Return a refresher for a source."""
        return Refresher(self.database, tenant_source(source), DEPLOYER)

    async def turn(self, source: str = "public.tenants") -> UUID:
        """Take the turn at once, as `tenant refresh` does."""
        token = uuid4()
        async with self.database.transaction() as connection:
            await tenant_sources.declare(connection, source, MAX_AGE, None)
            await tenant_sources.take_turn(connection, token, None, None)
        return token

    async def refresh(
        self, source: str = "public.tenants", max_missing: int | None = None
    ) -> SourceRefresh:
        """Refresh now."""
        return await self.refresher(source).refresh(await self.turn(source), max_missing)

    def registered(self) -> Mapping[str, DictRow]:
        """Return tenantcron's tenants."""
        return {row["id"]: row for row in self.sql("SELECT * FROM tenantcron.tenant ORDER BY id")}

    def statuses(self) -> dict[str, tuple[str, str | None]]:
        """Return the status of each tenant, with its reason."""
        return {
            name: (row["status"], row["status_reason"]) for name, row in self.registered().items()
        }
