"""A replica claims what it can run; executions without a runner wait until their deadline."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from support.scheduling import NOON, Scheduling
from support.scraping import read

from tenantcron.core.names import TenantId
from tenantcron.core.requirements import covers, requirement, target_kind
from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.scheduler.inspect.cluster_status import read_cluster_status
from tenantcron.scheduler.inspect.health import examine
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.start_conditions import without_runner
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.metrics import prometheus
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.claim import release_unrunnable
from tenantcron.scheduler.steps.runners import RunnerWatch
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport, WorkerRow
from tenantcron.store.steps import glances, requirements
from tenantcron.store.steps.requirements import Runner
from tenantcron.targets.capabilities import Capabilities

URL = {"http": {"url": "https://x.test/", "method": "POST", "headers": {}, "auth": "none"}}


def with_capabilities(replica: Replica, *named: str, patterns: tuple[str, ...] = ()) -> Replica:
    return replace(replica, capabilities=Capabilities(named, patterns))


async def report(scheduling: Scheduling, replica: Replica, *, draining: bool = False) -> None:
    """Send a heartbeat of a replica."""
    report = WorkerReport(
        replica.worker_id,
        "scheduler",
        running=0,
        abandoned=0,
        draining=draining,
        capabilities=replica.capabilities.declared,
    )
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())


async def reasons(scheduling: Scheduling) -> list[tuple[object, object]]:
    return [(row["state"], row["reason"]) for row in await scheduling.rows()]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [({}, "saga:invoice"), ({"target": None}, "saga:invoice"), ({"target": URL}, "http")],
)
def test_a_requirement_is_the_kind_of_the_target_else_the_saga(
    definition: dict[str, object], expected: str
) -> None:
    assert requirement("invoice", target_kind(definition)) == expected  # type: ignore[arg-type] # JSON


@pytest.mark.parametrize(
    ("capabilities", "required", "enough"),
    [
        (["saga:invoice"], "saga:invoice", True),
        (["saga:invoice"], "saga:invoices", False),
        (["saga:report_*"], "saga:report_daily", True),
        (["saga:*"], "http", False),
        (["http"], "http", True),
        ([], "http", False),
    ],
)
def test_a_capability_covers_requirements_that_match_its_pattern(
    capabilities: list[str], required: str, enough: bool
) -> None:
    assert covers(capabilities, required) is enough


async def test_each_service_claims_only_its_own_executions(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(3, saga_name="invoice")
    await scheduling.waiting(2, saga_name="forecast")

    billing = await scheduling.claim_all(scheduling.replica("billing", "invoice"))
    forecasting = await scheduling.claim_all(scheduling.replica("forecasting", "forecast"))

    assert [claimed.saga_name for claimed in billing] == ["invoice"] * 3
    assert [claimed.saga_name for claimed in forecasting] == ["forecast"] * 2


async def test_a_replica_with_neither_handlers_nor_targets_claims_nothing(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2)

    claim = await scheduling.claim(with_capabilities(scheduling.replica()))

    assert (claim.started, claim.has_own) == ((), False)


async def test_a_fired_execution_requires_its_handler_or_its_kind_of_target(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule("invoice")
    await scheduling.schedule("call", target=URL)
    scheduling.clock.advance(hours=1)

    await scheduling.fire()

    rows = {row["schedule_name"]: row["requires"] for row in await scheduling.rows()}
    assert rows == {"invoice": "saga:invoice", "call": "http"}


async def test_limits_count_the_executions_of_all_services(scheduling: Scheduling) -> None:
    await scheduling.limit(3)
    await scheduling.waiting(5, saga_name="invoice", tenant="a")
    await scheduling.waiting(5, saga_name="forecast", tenant="b")

    billing = await scheduling.claim_all(scheduling.replica("billing", "invoice"))
    forecasting = await scheduling.claim_all(scheduling.replica("forecasting", "forecast"))

    assert (len(billing), len(forecasting)) == (3, 0)


async def test_the_tenant_limit_applies_across_all_requirements_of_a_claim(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100, per_tenant=3)
    for saga in ("invoice", "forecast", "report"):
        await scheduling.waiting(3, saga_name=saga)

    started = await scheduling.claim_all()

    assert len(started) == 3


async def test_priority_and_age_order_executions_across_the_sagas_of_a_tenant(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    for saga, priority, age in [("c", 2, 1), ("a", 2, 5), ("d", 3, 9), ("b", 0, 0)]:
        not_before = NOON - timedelta(minutes=age)
        await scheduling.waiting(1, saga_name=saga, priority=priority, not_before=not_before)

    order = []
    while started := await scheduling.claim_all():
        order.append(started[0].saga_name)
        await scheduling.finish(started[0])

    assert order == ["b", "a", "c", "d"]


async def test_a_busy_service_leaves_slots_to_one_that_is_short_of_them(
    scheduling: Scheduling,
) -> None:
    billing = scheduling.replica("billing", "invoice")
    forecasting = scheduling.replica("forecasting", "forecast")
    await report(scheduling, billing)
    await report(scheduling, forecasting)
    await scheduling.limit(2)
    await scheduling.waiting(20, saga_name="invoice", tenant="big")
    first, second = await scheduling.claim_all(billing)
    await scheduling.waiting(1, saga_name="forecast", tenant="small")
    assert (await scheduling.claim(forecasting)).is_short

    await scheduling.finish(first)
    claim = await scheduling.claim(billing)

    # The small tenant runs nothing, so the free slot is reserved for it.
    assert (claim.started, claim.leaves_slots) == ((), True)
    (started,) = (await scheduling.claim(forecasting)).started
    assert started.tenant_id == "small"
    await scheduling.finish(second)
    assert len((await scheduling.claim(billing)).started) == 1


async def test_slots_are_not_reserved_for_long_for_a_service_that_does_not_claim(
    scheduling: Scheduling,
) -> None:
    billing = scheduling.replica("billing", "invoice")
    forecasting = scheduling.replica("forecasting", "forecast")
    await report(scheduling, forecasting)
    await scheduling.limit(1)
    await scheduling.waiting(3, saga_name="invoice", tenant="big")
    (first,) = await scheduling.claim_all(billing)
    older = NOON - timedelta(minutes=1)
    await scheduling.waiting(1, saga_name="forecast", tenant="small", not_before=older)
    await scheduling.claim(forecasting)
    await scheduling.finish(first)
    assert (await scheduling.claim(billing)).started == ()

    scheduling.clock.advance(seconds=7)

    assert len((await scheduling.claim(billing)).started) == 1


async def test_rows_of_the_previous_release_get_a_requirement_and_are_claimed(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2, saga_name="invoice", requires=None)
    await scheduling.waiting(1, saga_name="forecast", requires=None)

    started = await scheduling.claim_all(scheduling.replica("billing", "invoice"))

    assert len(started) == 2
    rows = await scheduling.rows()
    assert {row["requires"] for row in rows} == {"saga:invoice", "saga:forecast"}


async def test_a_row_of_the_previous_release_with_a_target_requires_its_kind(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule("call", target=URL)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    await scheduling.execute("UPDATE tenantcron.execution SET requires = NULL")

    assert await scheduling.claim_all(scheduling.replica("billing", "call")) == []
    (started,) = await scheduling.claim_all(with_capabilities(scheduling.replica(), "http"))

    assert started.schedule_name == "call"


async def test_a_catch_all_claims_what_no_replica_declares(scheduling: Scheduling) -> None:
    engine = with_capabilities(scheduling.replica("engine"), patterns=("saga:*",))
    billing = scheduling.replica("billing", "invoice")
    await RunnerWatch(billing).declare()
    await scheduling.waiting(1, saga_name="invoice")
    await scheduling.waiting(1, saga_name="other")

    started = await scheduling.claim_all(engine)

    assert [claimed.saga_name for claimed in started] == ["other"]


async def test_a_catch_all_skips_what_was_declared_within_the_last_hour(
    scheduling: Scheduling,
) -> None:
    engine = with_capabilities(scheduling.replica("engine"), patterns=("saga:*",))
    await RunnerWatch(scheduling.replica("billing", "invoice")).declare()
    await scheduling.waiting(1, saga_name="invoice")
    scheduling.clock.advance(minutes=59)
    assert await scheduling.claim_all(engine) == []

    scheduling.clock.advance(minutes=2)

    assert len(await scheduling.claim_all(engine)) == 1


async def test_a_limited_catch_all_claims_only_what_its_pattern_matches(
    scheduling: Scheduling,
) -> None:
    reports = with_capabilities(scheduling.replica(), patterns=("saga:report_*",))
    await scheduling.waiting(1, saga_name="invoice")
    await scheduling.waiting(1, saga_name="report_daily")

    started = await scheduling.claim_all(reports)

    assert [claimed.saga_name for claimed in started] == ["report_daily"]


async def test_a_mistaken_claim_is_released_without_an_attempt_and_corrected(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(1, saga_name="invoice", requires="saga:wrong")
    replica = scheduling.replica("one", "wrong")
    (claimed,) = await scheduling.claim_all(replica)

    await release_unrunnable(replica, [claimed], ["saga:invoice"])

    (row,) = await scheduling.rows()
    assert (row["state"], row["attempt"], row["requires"]) == ("PENDING", 0, "saga:invoice")
    assert await scheduling.claim_all(replica) == []


async def test_a_retry_and_a_lost_execution_keep_their_requirement(scheduling: Scheduling) -> None:
    await scheduling.waiting(1, saga_name="invoice")
    billing = scheduling.replica("billing", "invoice")
    (claimed,) = await scheduling.claim_all(billing)

    await scheduling.finish(claimed, AttemptOutcome.FAILED, "broken")
    scheduling.clock.advance(hours=1)

    assert await scheduling.claim_all(scheduling.replica("other", "forecast")) == []
    (again,) = await scheduling.claim_all(billing)
    assert again.attempt == 2


def row(*capabilities: str, draining: bool = False, unknown: bool = False) -> WorkerRow:
    declared = None if unknown else list(capabilities)
    return WorkerRow("x", "scheduler", NOON, NOON, 0, 0, draining, declared)


@pytest.mark.parametrize(
    ("replicas", "missing"),
    [
        ([], ["saga:invoice", "http"]),
        ([row("saga:invoice")], ["http"]),
        ([row("saga:*"), row("http")], []),
        ([row("saga:invoice", "http", draining=True)], ["saga:invoice", "http"]),
        ([row(unknown=True)], []),
    ],
    ids=["no replica", "one handler", "catch-all and targets", "draining", "release before"],
)
def test_requirements_without_a_runner_follow_from_the_live_replicas(
    replicas: list[WorkerRow], missing: list[str]
) -> None:
    assert without_runner(["saga:invoice", "http"], replicas) == missing


async def test_an_execution_without_a_runner_waits_until_its_start_deadline(
    scheduling: Scheduling,
) -> None:
    billing = scheduling.replica("billing", "invoice")
    await report(scheduling, billing)
    deadline = NOON + timedelta(minutes=10)
    await scheduling.waiting(1, saga_name="forecast", start_deadline=deadline)
    await scheduling.waiting(1, saga_name="patient", start_deadline=None)
    watch = RunnerWatch(billing)

    scheduling.clock.advance(minutes=10)
    await report(scheduling, billing)
    await watch.check()
    assert await reasons(scheduling) == [("PENDING", None)] * 2
    scheduling.clock.advance(minutes=2)
    await report(scheduling, billing)
    await watch.check()

    ended = "no live replica can run it (saga:forecast)"
    assert set(await reasons(scheduling)) == {("SKIPPED", ended), ("PENDING", None)}
    cursors = await scheduling.rows("schedule_cursor", "schedule_id")
    assert [cursor["consecutive_failures"] for cursor in cursors] == [0, 0]


async def test_an_execution_with_a_live_runner_elsewhere_stays_pending(
    scheduling: Scheduling,
) -> None:
    billing = scheduling.replica("billing", "invoice")
    await report(scheduling, scheduling.replica("forecasting", "forecast"))
    await scheduling.waiting(1, saga_name="forecast", start_deadline=NOON - timedelta(hours=1))
    await scheduling.execute(
        "UPDATE tenantcron.execution SET created_at = :at", at=NOON - timedelta(hours=1)
    )

    await RunnerWatch(billing).check()

    assert await reasons(scheduling) == [("PENDING", None)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "UPDATE tenantcron.tenant SET status = 'suspended', status_reason = 'unpaid'",
            "tenant suspended: unpaid",
        ),
        ("DELETE FROM tenantcron.schedule_cursor", "schedule removed"),
        ("UPDATE tenantcron.schedule_cursor SET enabled = false", "schedule disabled"),
    ],
)
async def test_an_execution_without_a_runner_ends_with_its_tenant_or_schedule(
    scheduling: Scheduling, change: str, reason: str
) -> None:
    await scheduling.waiting(1, saga_name="forecast")
    await scheduling.execute(change)

    await RunnerWatch(scheduling.replica("billing", "invoice")).check()

    assert await reasons(scheduling) == [("SKIPPED", reason)]


async def test_the_next_occurrence_replaces_one_without_a_runner(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule("forecast", overlap="cancel_running")
    for _ in range(3):
        scheduling.clock.advance(hours=1)
        await scheduling.fire()

    await RunnerWatch(scheduling.replica("billing", "invoice")).check()

    states = [row["state"] for row in await scheduling.rows()]
    assert states == ["SKIPPED", "SKIPPED", "PENDING"]
    assert (await scheduling.cursor(schedule))["paused_at"] is None


async def test_health_reports_sagas_without_a_runner(scheduling: Scheduling) -> None:
    await report(scheduling, scheduling.replica("billing", "invoice"))
    await scheduling.waiting(1, saga_name="invoice")
    await scheduling.waiting(3, saga_name="forecast")
    scheduling.clock.advance(seconds=30)

    async with scheduling.database.transaction() as connection:
        status = await read_cluster_status(connection, timedelta(seconds=60), scheduling.clock())
    (found,) = [finding for finding in examine(status) if finding.code == "no-runner"]

    assert found.message == (
        "no live replica can run 1 saga; 3 executions cannot start, the oldest for 30s"
    )
    assert (found.subjects, found.count) == (("forecast",), 3)


async def test_health_does_not_count_executions_without_a_runner_as_waiting_for_slots(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(3, saga_name="forecast")
    scheduling.clock.advance(hours=1)
    await report(scheduling, scheduling.replica("billing", "invoice"))

    async with scheduling.database.transaction() as connection:
        status = await read_cluster_status(connection, timedelta(seconds=60), scheduling.clock())

    assert [finding.code for finding in examine(status)] == ["no-runner"]


async def test_why_explains_that_no_live_replica_can_run_it(scheduling: Scheduling) -> None:
    await scheduling.schedule("forecast", start_within="1h")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    await report(scheduling, scheduling.replica("billing", "invoice"))

    async with scheduling.database.transaction() as connection:
        ref = schedule_ref("acme/forecast")
        status = await read_schedule_status(
            connection, ref, timedelta(seconds=60), scheduling.clock()
        )

    first = explain(status)[0]
    assert first.code == "waits-for-runner"
    assert "until 2026-12-01 14:00:00 UTC for a replica that can run saga `forecast`" in (
        first.message
    )


async def test_a_metric_counts_executions_without_a_runner_for_a_bounded_number_of_sagas(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_SAGAS", 2)
    await report(scheduling, scheduling.replica("billing", "invoice"))
    await scheduling.waiting(5, saga_name="invoice")
    for number, saga in enumerate(("few", "more", "most"), 1):
        await scheduling.waiting(number, saga_name=saga)

    metrics = prometheus.Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    scraped = read((await metrics.scrape()).decode())

    assert scraped.values("executions_without_runner", "saga") == {"most": 3, "more": 2}


async def test_executions_without_a_runner_cost_an_idle_replica_only_glances(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(50, saga_name="forecast")
    own = ["saga:invoice"]

    assert not await glances.anything_waits(scheduling.database, own)
    assert await glances.seconds_to_next_waiting(scheduling.database, own, NOON, NOON) is None


async def test_old_capabilities_are_deleted(scheduling: Scheduling) -> None:
    await scheduling.execute(
        "INSERT INTO tenantcron.capability VALUES ('saga:old', now() - interval '31 days'),"
        " ('saga:new', now())"
    )

    async with scheduling.database.transaction() as connection:
        await requirements.forget_old(connection)

    assert [row["name"] for row in await scheduling.rows("capability", "name")] == ["saga:new"]


async def test_only_unstarted_executions_get_the_new_requirement_of_a_schedule(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(3, saga_name="invioce")
    claimed, failed = (await scheduling.claim_all())[:2]
    await scheduling.finish(failed, AttemptOutcome.FAILED, "broken")
    await scheduling.waiting(1, saga_name="invioce")
    rows = await scheduling.rows()
    runners = [
        Runner(
            TenantId("acme"),
            UUID(str(row["schedule_id"])),
            "invoice",
            UUID(str(row["definition_id"])),
            "saga:invoice",
        )
        for row in rows
    ]

    async with scheduling.database.transaction() as connection:
        moved = await requirements.follow(connection, runners)

    sagas = {row["id"]: row["saga_name"] for row in await scheduling.rows()}
    assert moved == 1
    assert sagas[claimed.id] == sagas[failed.id] == "invioce"
    assert sorted(sagas.values()) == ["invioce"] * 3 + ["invoice"]
