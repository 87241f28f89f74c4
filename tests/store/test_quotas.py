"""Quotas: the policy declares them, operators override them, and submissions obey them."""

from datetime import timedelta

import pytest
from support.scheduling import Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas, EffectiveQuota, QuotaSource
from tenantcron.schedules.task_request import TaskRequest
from tenantcron.store.rows import limits, tenants
from tenantcron.store.steps.submit import Rejection, TasksRejectedError

__all__ = ["scheduling"]

ACME = TenantId("acme")


async def declare(scheduling: Scheduling, declared: DeclaredQuotas) -> bool:
    async with scheduling.database.transaction() as connection:
        return await limits.declare_quotas(connection, declared)


async def override(scheduling: Scheduling, **quotas: int | None) -> None:
    async with scheduling.database.transaction() as connection:
        await tenants.set_limits(connection, ACME, {"quotas": quotas})


async def effective(scheduling: Scheduling, name: str) -> EffectiveQuota:
    async with scheduling.database.transaction() as connection:
        row = await tenants.find(connection, ACME)
        assert row is not None
        return (await limits.read_quotas(connection)).of_tenant(ACME, row.quotas)[name]


async def fits(scheduling: Scheduling, number: int) -> bool:
    """Whether a tenant without tasks may submit so many."""
    await scheduling.execute("TRUNCATE tenantcron.task, tenantcron.execution")
    try:
        await scheduling.submit(*[TaskRequest("work")] * number)
    except TasksRejectedError as rejected:
        return rejected.rejection is not Rejection.OVER_QUOTA
    return True


async def test_an_operator_precedes_the_policy_of_the_tenant_which_precedes_that_of_all(
    scheduling: Scheduling,
) -> None:
    await scheduling.tenant("acme")
    assert await effective(scheduling, "pending_tasks") == EffectiveQuota(
        10_000, QuotaSource.DEFAULT
    )

    async def expect(number: int, source: QuotaSource) -> None:
        assert await effective(scheduling, "pending_tasks") == EffectiveQuota(number, source)
        assert await fits(scheduling, number)
        assert not await fits(scheduling, number + 1)

    await declare(scheduling, DeclaredQuotas({"pending_tasks": 2}))
    await expect(2, QuotaSource.POLICY)
    of_beta = {TenantId("beta"): {"pending_tasks": 9}}
    await declare(
        scheduling, DeclaredQuotas({"pending_tasks": 2}, {ACME: {"pending_tasks": 3}, **of_beta})
    )
    await expect(3, QuotaSource.TENANT_POLICY)
    await override(scheduling, pending_tasks=4)
    await override(scheduling, payload_bytes=1000)
    await expect(4, QuotaSource.OPERATOR)
    await override(scheduling, pending_tasks=None)
    await expect(3, QuotaSource.TENANT_POLICY)
    assert (await effective(scheduling, "payload_bytes")).source is QuotaSource.OPERATOR


async def test_the_same_policy_again_changes_nothing(scheduling: Scheduling) -> None:
    declared = DeclaredQuotas({"pending_tasks": 2}, {ACME: {"pending_tasks": 3}})

    assert await declare(scheduling, declared)
    assert not await declare(scheduling, declared)
    assert await declare(scheduling, DeclaredQuotas())


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(hours=1)])
async def test_stored_bytes_count_the_payloads_of_tasks_that_have_not_started(
    scheduling: Scheduling, delay: timedelta
) -> None:
    await scheduling.tenant("acme")
    await scheduling.limit(10)
    await override(scheduling, stored_bytes=300)
    # {"t": "…"} has 9 bytes besides the text.
    large = TaskRequest("work", {"t": "x" * 91}, delay=delay)
    await scheduling.submit(large, large)

    with pytest.raises(TasksRejectedError) as raised:
        await scheduling.submit(large, TaskRequest("work"))

    assert raised.value.rejection is Rejection.OVER_QUOTA
    assert [problem.code for problem in raised.value.problems] == ["stored_bytes"]
    await scheduling.submit(large)
    scheduling.clock.now += delay
    await scheduling.fire()
    assert len((await scheduling.claim()).started) == 3
    await scheduling.submit(large)
