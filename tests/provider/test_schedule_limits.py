"""Minimum interval and limit apply to all providers, and failures of a provider are isolated."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection
from support.fleet import DEPLOYER, Fleet, numbered

from tenantcron.core.names import TenantId, tenant_id
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.provider.protocol import ProvidedTenant, ScheduleProvider
from tenantcron.provider.refresh import refresh
from tenantcron.provider.schedule_limits import BoundedProvider, Bounds, ProviderError
from tenantcron.provider.static import static_provider
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseAwayError
from tenantcron.store.rows.tenants import Scope, Synced, TenantLimits
from tenantcron.tenants.registry import Registry

BOUNDS = Bounds(timedelta(minutes=15), 4)


def static(*entries: dict[str, JsonValue]) -> BoundedProvider:
    given: list[JsonObject] = [
        {"tenant": "acme", "saga": "report", "cron": "0 2 * * *", **entry} for entry in entries
    ]
    return BoundedProvider(static_provider(given), BOUNDS)


async def test_a_schedule_below_the_minimum_interval_is_skipped_and_reported(fleet: Fleet) -> None:
    fleet.write("acme", {})
    await fleet.apply()
    provider = static({"name": "slow"}, {"name": "fast", "cron": "*/5 * * * *"})
    done = await refresh(fleet.database, provider, retry_broken=True)
    assert done.created == 1
    assert done.broken == {
        "acme": "schedule `fast`: the shortest gap of `*/5 * * * *` is 5m; the platform requires "
        "at least 15m"
    }


async def test_the_limit_counts_the_schedules_of_all_providers(fleet: Fleet) -> None:
    fleet.write("acme", numbered(2))
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())
    provider = static({"name": "c"}, {"name": "a"}, {"name": "b"})
    done = await refresh(fleet.database, provider, retry_broken=True)
    assert done.created == 2
    assert done.broken == {"acme": "schedule `c`: the tenant may have 4 schedules, and has them"}


async def test_the_limit_of_a_tenant_overrides_that_of_the_platform(fleet: Fleet) -> None:
    fleet.write("acme", {})
    await fleet.apply()
    await Registry(fleet.database, DEPLOYER).set_limits(
        tenant_id("acme"), TenantLimits(max_schedules=1)
    )
    done = await refresh(fleet.database, static({"name": "a"}, {"name": "b"}), retry_broken=True)
    assert (done.created, len(done.broken)) == (1, 1)


async def test_a_schedule_that_becomes_too_frequent_is_removed(fleet: Fleet) -> None:
    fleet.write("acme", {})
    await fleet.apply()
    await refresh(fleet.database, static({"name": "a"}), retry_broken=True)
    done = await refresh(
        fleet.database, static({"name": "a", "cron": "* * * * *"}), retry_broken=True
    )
    assert (done.removed, list(done.broken)) == (1, ["acme"])


@dataclass(frozen=True)
class Failing:
    """A provider that raises."""

    error: Exception
    name: str = "failing"

    async def has_moved(self, database: Database) -> bool:
        del database
        return True

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        del connection, scope, after
        raise self.error

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        del connection, synced


async def test_provider_errors_name_the_provider_and_database_errors_pass_through(
    database: Database,
) -> None:
    failing: ScheduleProvider = Failing(KeyError("plan"))
    with pytest.raises(ProviderError, match="KeyError: 'plan'") as raised:
        await refresh(database, BoundedProvider(failing, BOUNDS), retry_broken=True)
    assert raised.value.provider == "failing"
    wrong: ScheduleProvider = Failing(ProgrammingError("SELECT nowhere", {}, ValueError("x")))
    with pytest.raises(ProviderError):
        await refresh(database, BoundedProvider(wrong, BOUNDS), retry_broken=True)
    for error in (DatabaseAwayError("gone"), OperationalError("SELECT 1", {}, ValueError("gone"))):
        away: ScheduleProvider = Failing(error)
        with pytest.raises(type(error)):
            await refresh(database, BoundedProvider(away, BOUNDS), retry_broken=True)
