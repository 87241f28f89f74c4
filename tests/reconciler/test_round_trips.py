"""The number of statements of an apply, which does not depend on the number of schedules."""

import pytest
from support.fleet import CREATING, RAISED_CAP, Fleet, names, numbered, statements

from tenantcron.core.names import TenantId
from tenantcron.reconciler.outcome import Status
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.state import read_states
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.batches import SCHEMAS_A_STATEMENT
from tenantcron.tenants.creation import create_tenant

COUNTS = (1, 20, 200)


async def spoken(fleet: Fleet, schedules: dict[str, str], rules: Rules = CREATING) -> int:
    """Apply, and return the number of statements."""
    fleet.write("acme", schedules)
    with statements(fleet.database) as sent:
        (outcome,) = await fleet.apply(rules)
    assert outcome.status is Status.APPLIED
    return len(sent)


@pytest.fixture(autouse=True)
def raised_cap(fleet: Fleet) -> None:
    (fleet.folder / "tenantcron.toml").write_text(RAISED_CAP, encoding="utf-8")


async def test_the_number_of_statements_does_not_depend_on_the_number_of_schedules(
    fleet: Fleet, database_url: str
) -> None:
    await spoken(fleet, {})
    everything = Rules(max_deletes=1_000)

    created, updated, deleted = set(), set(), set()
    for count in COUNTS:
        created.add(await spoken(fleet, numbered(count)))
        assert len(names(database_url, "acme")) == count
        updated.add(await spoken(fleet, numbered(count, "cron: '0 3 * * *'")))
        deleted.add(await spoken(fleet, {}, everything))
        assert names(database_url, "acme") == []

    assert len(created) == len(updated) == len(deleted) == 1
    assert max(*created, *updated, *deleted) < 25


async def test_creating_a_tenant_takes_the_same_statements_for_any_number_of_schedules(
    fleet: Fleet,
) -> None:
    costs = set()
    for number, count in enumerate(COUNTS):
        (fleet.folder / "acme.yaml").unlink(missing_ok=True)
        tenant = f"t{number}"
        fleet.write(tenant, numbered(count))
        with statements(fleet.database) as sent:
            await fleet.apply()
        (fleet.folder / f"{tenant}.yaml").unlink()
        costs.add(len(sent))

    assert len(costs) == 1


async def test_the_state_of_many_tenants_is_read_with_few_statements(database: Database) -> None:
    tenants = [TenantId(f"t{number}") for number in range(2 * SCHEMAS_A_STATEMENT)]
    async with database.transaction() as connection:
        for tenant in tenants:
            await create_tenant(connection, tenant)

    costs = {}
    for count in (1, SCHEMAS_A_STATEMENT, len(tenants)):
        with statements(database) as sent:
            states = await read_states(database, tenants[:count])
        assert len(states) == count
        costs[count] = sum("SELECT" in statement for statement in sent)

    # Four statements per transaction, which reads at most fifty tenants.
    assert list(costs.values()) == [4, 4, 8]
