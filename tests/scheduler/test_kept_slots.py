"""Slots are reserved for tenants that run nothing, so hanging tenants cannot block the cluster."""

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport


async def hang(scheduling: Scheduling, *tenants: str, executions: int = 30) -> int:
    """Start as many executions as possible for each tenant in turn; return how many run."""
    for tenant in tenants:
        await scheduling.waiting(executions, tenant=tenant)
        await scheduling.claim_all()
    return await scheduling.count(state="RUNNING")


async def tenants(scheduling: Scheduling, number: int) -> list[str]:
    return [await scheduling.tenant(f"t{index:02}") for index in range(number)]


async def test_seven_hanging_tenants_leave_a_slot_for_another_at_the_default_limits(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    assert await hang(scheduling, *names[:7]) == 19
    await scheduling.waiting(1, tenant=names[20], start_deadline=NOON)

    (started,) = (await scheduling.claim()).started

    assert started.tenant_id == names[20]


async def test_eight_hanging_tenants_hold_all_slots_at_the_default_limits(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    assert await hang(scheduling, *names[:8]) == 20
    held = [await scheduling.count(state="RUNNING", tenant_id=name) for name in names[:8]]
    assert held == [5, 5, 5, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("limit", "least"), [(4, 2), (8, 3), (40, 11), (100, 26)])
async def test_only_more_than_a_quarter_as_many_tenants_as_slots_can_hold_all_slots(
    scheduling: Scheduling, limit: int, least: int
) -> None:
    await scheduling.limit(limit, limit)
    names = await tenants(scheduling, 2 * limit)
    assert await hang(scheduling, *names[: least - 1], executions=limit) < limit
    assert await hang(scheduling, names[least - 1], executions=1) == limit


async def test_tenants_that_start_together_leave_slots_for_later_ones(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    for name in names[:10]:
        await scheduling.waiting(30, tenant=name)
    assert len(await scheduling.claim_all()) == 15
    for name in names[10:15]:
        await scheduling.waiting(1, tenant=name)
    assert {execution.tenant_id for execution in await scheduling.claim_all()} == set(names[10:15])


@pytest.mark.parametrize(("number", "running"), [(1, 20), (3, 20), (4, 20)])
async def test_no_slot_is_reserved_if_every_tenant_runs_something(
    scheduling: Scheduling, number: int, running: int
) -> None:
    await scheduling.limit(20, 20)
    for name in await tenants(scheduling, number):
        await scheduling.waiting(30, tenant=name)
    assert len(await scheduling.claim_all()) == running


async def test_a_freed_slot_stays_reserved(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    await scheduling.waiting(9, tenant=names[0])
    first, *_ = await scheduling.claim_all()
    assert await hang(scheduling, *names[1:4]) == 16
    await scheduling.finish(first, AttemptOutcome.SUCCEEDED)

    assert await scheduling.claim_all() == []


async def test_an_execution_that_may_not_wait_is_skipped_with_the_reserved_slots_as_reason(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    await hang(scheduling, *names[:2])
    await scheduling.waiting(1, tenant=names[2])
    await scheduling.claim_all()
    await scheduling.waiting(9, tenant=names[2], start_deadline=NOON)

    await scheduling.claim_all()

    assert await scheduling.count(state="RUNNING", tenant_id=names[2]) == 5
    await scheduling.waiting(1, tenant=names[3])
    await scheduling.claim_all()
    await scheduling.waiting(1, tenant=names[3], start_deadline=NOON)
    await scheduling.claim_all()
    (row,) = [
        row
        for row in await scheduling.rows()
        if row["tenant_id"] == names[3] and row["state"] == "SKIPPED"
    ]
    assert row["reason"] == (
        "concurrency limit reached (the last 5 slots are for tenants that run nothing, "
        "this one runs 1)"
    )


async def test_an_execution_that_may_wait_starts_when_enough_slots_are_free(
    scheduling: Scheduling,
) -> None:
    names = await tenants(scheduling, 30)
    await scheduling.waiting(5, tenant=names[0])
    held = await scheduling.claim_all()
    await hang(scheduling, names[1], names[2], names[3], executions=5)
    assert await scheduling.count(state="RUNNING", tenant_id=names[3]) == 1
    for execution in held[:2]:
        await scheduling.finish(execution, AttemptOutcome.SUCCEEDED)

    await scheduling.claim_all()

    assert await scheduling.count(state="RUNNING", tenant_id=names[3]) == 2


async def test_a_tenant_uses_reserved_slots_up_to_its_weight(scheduling: Scheduling) -> None:
    names = await tenants(scheduling, 30)
    await scheduling.tenant("heavy", weight=3)
    assert await hang(scheduling, *names[:3]) == 15
    await hang(scheduling, "heavy")
    assert await scheduling.count(state="RUNNING", tenant_id="heavy") == 3


async def test_replicas_do_not_notify_each_other_of_reserved_slots(
    scheduling: Scheduling,
) -> None:
    """Otherwise two replicas would notify each other of a slot that neither may use."""
    names = await tenants(scheduling, 30)
    await hang(scheduling, *names[:3])
    billing, reports = (scheduling.replica(saga, saga) for saga in ("billing", "reports"))
    for replica in (billing, reports):
        report = WorkerReport(
            replica.worker_id,
            "scheduler",
            running=0,
            abandoned=0,
            draining=False,
            capabilities=replica.capabilities.declared,
        )
        async with scheduling.database.transaction() as connection:
            await workers.report(connection, report, scheduling.clock())
    await scheduling.waiting(2, tenant=names[3], saga_name="reports")
    assert len(await scheduling.claim_all(reports)) == 1
    assert (await scheduling.claim(reports)).is_short
    await scheduling.waiting(2, tenant=names[4], saga_name="billing")

    claim = await scheduling.claim(billing)

    assert (len(claim.started), claim.leaves_slots) == (1, False)
