"""Plug-ins of a platform for tenantcron: its tenants, and additional schedules.

`pip install ./examples/platform` installs both entry points; `tenantcron.toml` names them:

    [settings]
    tenant_source = "python:platform"
    providers = "trials"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.labels import LabelFilter
from tenantcron.core.names import TenantId
from tenantcron.provider.protocol import TENANTS_A_BATCH, ProvidedSchedule, ProvidedTenant
from tenantcron.provider.static_settings import DEFAULTS
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants as tenant_rows
from tenantcron.store.rows.tenants import Scope, Synced, TenantFilter, TenantRow, TenantStatus

NAMESPACE = UUID("7f0c3a52-6a7e-5f0e-8b3a-2d9f1c4e6b10")


async def tenants() -> list[dict[str, object]]:
    """Return the tenants of the platform; a real one would query its registry."""
    return [
        {"id": "acme", "status": "active", "labels": {"tier": "gold"}},
        {"id": "globex", "status": "active", "labels": {"tier": "trial"}},
        {"id": "initech", "status": "suspended", "status_reason": "unpaid"},
    ]


@dataclass(frozen=True, slots=True)
class TrialReminders:
    """Gives each tenant on trial a daily reminder, until the trial ends."""

    name: str = "trials"

    async def has_moved(self, database: Database) -> bool:
        """Compare every time: there are few tenants on trial."""
        del database
        return True

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants, each with or without a reminder."""
        del scope
        labelled = TenantFilter(labels=[LabelFilter("tier")])
        rows = await tenant_rows.page(connection, labelled, after=after, limit=TENANTS_A_BATCH)
        found = await tenant_rows.lock_many(connection, [row.id for row in rows])
        return [_provided(row) for row in found.values()]

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Do nothing: each refresh compares all tenants."""


def _provided(tenant: TenantRow) -> ProvidedTenant:
    on_trial = tenant.labels["tier"] == "trial" and tenant.status is TenantStatus.ACTIVE
    return ProvidedTenant(tenant.id, 0, (_reminder(tenant.id),) if on_trial else ())


def _reminder(tenant: TenantId) -> ProvidedSchedule:
    return ProvidedSchedule(
        schedule_id=uuid5(NAMESPACE, tenant),
        schedule_name="trial-reminder",
        saga_name="remind",
        cron_expr="0 9 * * *",
        timezone="UTC",
        enabled=True,
        definition=DEFAULTS,
        effective_from=None,
    )
