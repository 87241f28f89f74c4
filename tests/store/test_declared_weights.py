"""Weights of tenants: the policy declares them, and operators take precedence."""

import pytest
from support.scheduling import Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaName
from tenantcron.store.rows import declared_weights, tenants

__all__ = ["scheduling"]

ACME, BETA, LATER = TenantId("acme"), TenantId("beta"), TenantId("later")


async def declare(scheduling: Scheduling, weights: dict[TenantId, int]) -> bool:
    async with scheduling.database.transaction() as connection:
        return await declared_weights.declare(connection, weights)


async def set_weight(scheduling: Scheduling, tenant: TenantId, weight: int | None) -> None:
    async with scheduling.database.transaction() as connection:
        await tenants.set_limits(connection, tenant, {"weight": weight})


async def weights(scheduling: Scheduling) -> dict[str, int]:
    return {row["id"]: row["weight"] for row in await scheduling.rows("tenant", "id")}


@pytest.fixture(autouse=True)
async def two_tenants(scheduling: Scheduling) -> None:
    for tenant in (ACME, BETA):
        await scheduling.tenant(tenant)


async def test_tenants_get_the_weights_of_the_policy_and_lose_them_with_it(
    scheduling: Scheduling,
) -> None:
    assert await declare(scheduling, {ACME: 3, LATER: 5})
    assert await weights(scheduling) == {"acme": 3, "beta": 1}
    assert not await declare(scheduling, {ACME: 3, LATER: 5})
    assert await declare(scheduling, {BETA: 2})
    assert await weights(scheduling) == {"acme": 1, "beta": 2}


async def test_a_tenant_that_is_created_later_has_the_weight_of_the_policy(
    scheduling: Scheduling,
) -> None:
    await declare(scheduling, {LATER: 5})
    async with scheduling.database.transaction() as connection:
        await tenants.add(connection, LATER, SchemaName("tenant_later"))
    assert (await weights(scheduling))["later"] == 5


async def test_the_weight_of_an_operator_stays_until_it_is_set_to_the_default(
    scheduling: Scheduling,
) -> None:
    await set_weight(scheduling, ACME, 7)
    await declare(scheduling, {ACME: 3})
    assert (await weights(scheduling))["acme"] == 7
    await set_weight(scheduling, ACME, None)
    assert (await weights(scheduling))["acme"] == 3
