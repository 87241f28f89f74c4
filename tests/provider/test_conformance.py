"""The guarantees of every provider."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from support.cursors import cursors, run, set_cursor, utc, versions
from support.fleet import Fleet, statements

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.provider.protocol import TENANTS_A_BATCH, ScheduleProvider
from tenantcron.provider.refresh import Refreshed, refresh
from tenantcron.provider.static import static_provider
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.plan import Rules
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.tenants import Scope
from tenantcron.tenants.creation import create_tenant

Schedules = Mapping[str, str]


class World(Protocol):
    """A source of schedules."""

    fleet: Fleet

    @property
    def provider(self) -> ScheduleProvider: ...

    async def put(self, tenant: str, schedules: Schedules) -> None: ...


@dataclass
class Manifests:
    """Schedules from manifests."""

    fleet: Fleet

    @property
    def provider(self) -> ScheduleProvider:
        return TenantScheduleProvider()

    async def put(self, tenant: str, schedules: Schedules) -> None:
        words = {name: f"cron: '{cron}'" for name, cron in schedules.items()}
        self.fleet.write(tenant, words)
        await self.fleet.apply(Rules(create_tenants=True, max_deletes=100))


@dataclass
class StaticSettings:
    """Schedules from settings."""

    fleet: Fleet
    entries: dict[str, list[JsonObject]] = field(default_factory=dict)

    @property
    def provider(self) -> ScheduleProvider:
        return static_provider([entry for entries in self.entries.values() for entry in entries])

    async def put(self, tenant: str, schedules: Schedules) -> None:
        async with self.fleet.database.transaction() as connection:
            await create_tenant(connection, TenantId(tenant))
        self.entries[tenant] = [
            {"tenant": tenant, "name": name, "saga": name, "cron": cron}
            for name, cron in schedules.items()
        ]


@pytest.fixture(params=[Manifests, StaticSettings], ids=["tenant", "static"])
def world(request: pytest.FixtureRequest, fleet: Fleet) -> World:
    made: World = request.param(fleet)
    return made


async def refreshed(world: World) -> Refreshed:
    return await refresh(world.fleet.database, world.provider)


async def test_every_schedule_gets_a_cursor_of_its_provider(
    world: World, database_url: str
) -> None:
    await world.put("acme", {"nightly": "0 2 * * *", "hourly": "0 * * * *"})
    await world.put("beta", {"nightly": "0 3 * * *"})

    assert await refreshed(world) == Refreshed(tenants=2, created=3)

    found = cursors(database_url)
    assert {name: row["cron_expr"] for name, row in found.items()} == {
        "nightly": "0 2 * * *",
        "hourly": "0 * * * *",
    }
    assert {row["provider"] for row in found.values()} == {world.provider.name}
    assert cursors(database_url, "beta")["nightly"]["cron_expr"] == "0 3 * * *"
    now = run(database_url, "SELECT now()")[0]["now"]
    assert all(row["next_run_at"] > now for row in found.values()), "never in the past"


async def test_a_second_refresh_writes_nothing(world: World, database_url: str) -> None:
    await world.put("acme", {"nightly": "0 2 * * *"})
    await refreshed(world)
    before = versions(database_url)

    again = await refresh(world.fleet.database, world.provider, everything=True)

    assert (again.created, again.updated, again.removed) == (0, 0, 0)
    assert versions(database_url) == before


async def test_removed_schedules_lose_their_cursors(world: World, database_url: str) -> None:
    await world.put("acme", {"nightly": "0 2 * * *", "hourly": "0 * * * *"})
    await refreshed(world)
    await world.put("acme", {"hourly": "0 * * * *"})
    assert (await refreshed(world)).removed == 1
    assert list(cursors(database_url)) == ["hourly"]

    await world.put("acme", {})

    assert (await refreshed(world)).removed == 1
    assert cursors(database_url) == {}


async def test_adding_a_schedule_does_not_change_the_others(
    world: World, database_url: str
) -> None:
    await world.put("acme", {"nightly": "0 2 * * *"})
    await refreshed(world)
    due = utc(2026, 1, 1, 2)
    set_cursor(database_url, next_run_at=due, last_run_at=utc(2025, 12, 31, 2))

    await world.put("acme", {"nightly": "0 2 * * *", "hourly": "0 * * * *"})
    done = await refreshed(world)

    assert (done.created, done.updated) == (1, 0)
    assert cursors(database_url)["nightly"]["next_run_at"] == due


async def test_an_edit_fires_no_past_occurrence(world: World, database_url: str) -> None:
    await world.put("acme", {"nightly": "0 2 * * *"})
    await refreshed(world)
    set_cursor(database_url, next_run_at=utc(2026, 1, 1, 2), last_run_at=utc(2025, 12, 31, 2))
    (now,) = run(database_url, "SELECT now()")

    await world.put("acme", {"nightly": "*/15 * * * *"})
    await refreshed(world)

    row = cursors(database_url)["nightly"]
    assert row["next_run_at"] > now["now"]
    assert row["last_run_at"] == utc(2025, 12, 31, 2)


async def test_a_provider_does_not_touch_the_cursors_of_another(
    world: World, database_url: str
) -> None:
    await world.put("acme", {"nightly": "0 2 * * *"})
    await refreshed(world)
    set_cursor(database_url, provider="another")
    before = versions(database_url)[0]

    await world.put("acme", {})
    done = await refresh(world.fleet.database, world.provider, everything=True)

    assert done.removed == 0
    assert versions(database_url)[0] == before


async def test_a_deprovisioned_tenant_has_no_cursors(world: World, database_url: str) -> None:
    await world.put("acme", {"nightly": "0 2 * * *"})
    await refreshed(world)
    run(
        database_url,
        "UPDATE tenantcron.tenant SET status = 'deprovisioned',"
        " schedule_revision = schedule_revision + 1",
    )

    assert (await refreshed(world)).removed == 1
    assert cursors(database_url) == {}


async def test_batches_are_bounded_ordered_and_end(world: World, database: Database) -> None:
    names = [f"t{number:03}" for number in range(2 * TENANTS_A_BATCH + 3)]
    async with database.transaction() as connection:
        for name in names:
            await create_tenant(connection, TenantId(name))
    if isinstance(world, StaticSettings):
        for name in names:
            await world.put(name, {"nightly": "0 2 * * *"})

    sizes, seen, after = [], [], None
    for _ in range(4):
        async with database.transaction() as connection:
            batch = await world.provider.tenants(connection, Scope.ALL, after)
        sizes.append(len(batch))
        seen += [tenant.tenant_id for tenant in batch]
        after = seen[-1]

    assert sizes == [TENANTS_A_BATCH, TENANTS_A_BATCH, 3, 0]
    assert seen == names


async def test_a_refresh_sends_a_fixed_number_of_statements(
    world: World, database: Database
) -> None:
    costs = []
    for number, count in enumerate((1, 20)):
        for tenant in range(count):
            crons = {f"s{n}": f"{n} {number} * * *" for n in range(count)}
            await world.put(f"t{tenant:02}", crons)
        with statements(database) as sent:
            await refreshed(world)
        costs.append(len(sent))

    # The first has nothing to update, the second nothing to delete; one statement each.
    assert costs[1] <= costs[0] + 1
    assert costs[0] < 20


async def test_concurrent_refreshes_do_everything_once(world: World, database_url: str) -> None:
    for number in range(8):
        await world.put(f"t{number}", {"a": "0 2 * * *", "b": "0 3 * * *"})

    for cron in ("0 4 * * *", "0 5 * * *"):
        done = await asyncio.gather(*(refreshed(world) for _ in range(4)))
        assert sum(result.created + result.updated for result in done) == 16
        assert all(not result.broken for result in done)
        for number in range(8):
            await world.put(f"t{number}", {"a": cron, "b": cron})
    await refreshed(world)

    rows = run(database_url, "SELECT cron_expr FROM tenantcron.schedule_cursor")
    assert [row["cron_expr"] for row in rows] == ["0 5 * * *"] * 16
