"""Nothing starts while the tenant source is stale."""

from datetime import timedelta
from uuid import uuid4

from support.scheduling import NOON, Row, Scheduling

from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.scheduler.inspect.cluster_status import read_cluster_status
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health import examine
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.store.rows import tenant_sources
from tenantcron.store.rows.tenant_sources import SourceProblem

MAX_AGE = timedelta(minutes=10)


async def declared(scheduling: Scheduling) -> None:
    async with scheduling.database.transaction() as connection:
        await tenant_sources.declare(connection, "public.tenants", MAX_AGE, scheduling.clock())


async def read_again(scheduling: Scheduling) -> None:
    await scheduling.execute(
        "UPDATE tenantcron.tenant_source SET refreshed_at = :at", at=scheduling.clock()
    )


async def states(scheduling: Scheduling) -> list[tuple[object, object]]:
    rows: list[Row] = await scheduling.rows()
    return [(row["state"], row["reason"]) for row in rows]


async def findings(scheduling: Scheduling) -> dict[str, Finding]:
    async with scheduling.database.transaction() as connection:
        status = await read_cluster_status(connection, timedelta(minutes=1), scheduling.clock())
    return {found.code: found for found in examine(status)}


async def test_nothing_starts_while_the_source_is_stale(
    scheduling: Scheduling,
) -> None:
    await declared(scheduling)
    await scheduling.waiting(2)
    scheduling.clock.advance(minutes=10)
    assert len((await scheduling.claim()).started) == 2
    await scheduling.waiting(2, tenant="other")
    scheduling.clock.advance(seconds=1)
    assert (await scheduling.claim()).started == ()
    assert ("PENDING", None) in await states(scheduling)

    await read_again(scheduling)
    assert len((await scheduling.claim()).started) == 2


async def test_occurrences_are_fired_and_wait_while_the_source_is_stale(
    scheduling: Scheduling,
) -> None:
    await declared(scheduling)
    await scheduling.schedule(overlap="queue")
    scheduling.clock.advance(hours=1)
    assert await scheduling.fire() == 1
    assert await scheduling.claim_all() == []
    assert await states(scheduling) == [("PENDING", None)]


async def test_executions_that_may_not_wait_are_skipped_with_their_own_reason(
    scheduling: Scheduling,
) -> None:
    await declared(scheduling)
    scheduling.clock.advance(minutes=11)
    await scheduling.waiting(1, start_deadline=scheduling.clock())
    await scheduling.claim_all()
    assert await states(scheduling) == [("SKIPPED", "statuses of tenants are out of date")]
    assert await scheduling.count(reason_code="tenant_source_stale") == 1


async def test_health_and_why_report_a_stale_source(scheduling: Scheduling) -> None:
    await declared(scheduling)
    await scheduling.schedule(overlap="queue")
    assert "tenant-source-stale" not in await findings(scheduling)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    found = (await findings(scheduling))["tenant-source-stale"]
    assert found.severity is FindingSeverity.ERROR
    assert "public.tenants) was last read 1h ago, so no execution starts" in found.message
    async with scheduling.database.transaction() as connection:
        status = await read_schedule_status(
            connection, schedule_ref("acme/nightly"), timedelta(minutes=1), scheduling.clock()
        )
    assert "waits-for-tenant-source" in [reason.code for reason in explain(status)]


async def test_health_reports_the_problems_of_a_source_that_is_not_stale_yet(
    scheduling: Scheduling,
) -> None:
    await declared(scheduling)
    await scheduling.tenant("gone", sourced=True, status="suspended", missing_since=NOON)
    problems = [
        SourceProblem("*", "relation does not exist"),
        SourceProblem("acme", "the weight '0' is not a whole number from 1 to 100"),
    ]
    async with scheduling.database.transaction() as connection:
        token = uuid4()
        await tenant_sources.take_turn(connection, token, None, scheduling.clock())
        await tenant_sources.end_turn(connection, token, problems, scheduling.clock())
    await scheduling.execute("UPDATE tenantcron.tenant_source SET held = 7")
    scheduling.clock.advance(minutes=4)

    found = await findings(scheduling)
    assert "executions stop starting in 6m: relation" in found["tenant-source-unreadable"].message
    assert found["tenant-source-rows"].subjects == ("acme",)
    assert found["tenants-missing"].subjects == ("gone",)
    assert "--max-missing 7" in found["tenants-held"].hint
