"""The counters of a process, step by step."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from support.attempts import SETTINGS
from support.handlers import NoDatabase, handler
from support.leases import keep_up
from support.replicas import Works, made, until
from support.scheduling import NOON, Scheduling

from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.metrics.counts import DURATIONS, DurationHistogram
from tenantcron.scheduler.replica.maintenance_loops import MaintenanceLoops, quietest_hour
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch, recover_lost
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows import workers
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.workers import WorkerReport
from tenantcron.targets.execution import Execution
from tenantcron.targets.python.registry import Handlers


def test_a_value_counts_in_its_bucket_and_all_larger_ones() -> None:
    tally = DurationHistogram((1.0, 5.0))
    tally.add([0.5, 1.0, 1.5, 7.0])
    tally.add_times(5.0, 2)
    assert list(tally.cumulative()) == [(1.0, 2), (5.0, 5), (float("inf"), 6)]
    assert tally.total == 20.0


async def test_attempts_are_counted_by_outcome_with_the_duration_of_their_rows(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting(2)
    started = await scheduling.claim_all(replica)
    scheduling.clock.advance(seconds=7)
    await finish_batch(
        replica, [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
    )

    tally = replica.counts.durations[AttemptOutcome.SUCCEEDED]
    assert tally.total == 14.0
    assert dict(tally.cumulative())[5.0] == 0
    assert dict(tally.cumulative())[15.0] == 2
    assert replica.counts.ended == {(State.SUCCEEDED, None): 2}
    assert DURATIONS[-1] >= timedelta(hours=1).total_seconds()


async def test_a_retry_counts_as_an_attempt_but_not_as_an_end(scheduling: Scheduling) -> None:
    replica = scheduling.replica()
    await scheduling.waiting(attempts_allowed=2)
    for number in range(2):
        (claimed,) = await scheduling.claim_all(replica)
        await finish_batch(replica, [Attempt(claimed, AttemptOutcome.TIMED_OUT, "timed out")])
        expected = {(State.DEAD, ReasonCode.TIMED_OUT): 1} if number else {}
        assert replica.counts.ended == expected
        scheduling.clock.advance(hours=1)
    timed_out = replica.counts.durations[AttemptOutcome.TIMED_OUT]
    assert dict(timed_out.cumulative())[float("inf")] == 2


async def test_a_refused_owner_counts_as_a_skip_with_its_own_kind(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting()
    (claimed,) = await scheduling.claim_all(replica)
    await finish_batch(replica, [Attempt(claimed, AttemptOutcome.REFUSED, "ada has left")])
    assert await scheduling.count(state="SKIPPED") == 1
    assert replica.counts.ended == {(State.SKIPPED, ReasonCode.OWNER_REFUSED): 1}


async def test_lateness_counts_from_the_earliest_possible_start(scheduling: Scheduling) -> None:
    replica = scheduling.replica()
    await scheduling.waiting(not_before=scheduling.clock.now + timedelta(seconds=10))
    scheduling.clock.advance(seconds=12)
    await scheduling.claim_all(replica)
    assert replica.counts.lateness.total == 2.0
    assert dict(replica.counts.lateness.cumulative())[1.0] == 0
    assert dict(replica.counts.lateness.cumulative())[2.5] == 1


async def test_skips_are_counted_by_kind_of_reason(scheduling: Scheduling) -> None:
    replica = scheduling.replica()
    await scheduling.limit(1, 1)
    await scheduling.waiting(2, start_deadline=scheduling.clock.now)
    await scheduling.waiting(tenant="other", start_deadline=scheduling.clock.now)
    await scheduling.claim_all(replica)
    skipped = await scheduling.count(state="SKIPPED")
    assert skipped == sum(replica.counts.ended.values()) == 2
    assert {state for state, _ in replica.counts.ended} == {State.SKIPPED}
    assert {kind for _, kind in replica.counts.ended} <= {
        ReasonCode.LIMIT,
        ReasonCode.TENANT_LIMIT,
    }


async def test_skipped_and_missed_occurrences_are_counted_when_they_are_fired(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    paused = {"paused_at": scheduling.clock.now, "paused_reason": "a long story"}
    await scheduling.schedule("quiet", columns=paused)
    await scheduling.schedule("late", catch_up="none")
    scheduling.clock.advance(hours=5, minutes=30)
    fired = await scheduling.fire(replica)
    assert replica.counts.fired == fired == 2
    assert replica.counts.ended == {
        (State.SKIPPED, ReasonCode.PAUSED): 1,
        (State.MISSED, ReasonCode.NO_SCHEDULER): 1,
    }


async def test_a_result_without_a_lease_counts_only_as_refused(scheduling: Scheduling) -> None:
    replica, other = scheduling.replica(), scheduling.replica("two")
    await scheduling.waiting()
    (claimed,) = await scheduling.claim_all(replica)
    scheduling.clock.advance(hours=1)
    assert await recover_lost(other) == 1
    await finish_batch(replica, [Attempt(claimed, AttemptOutcome.SUCCEEDED)])
    assert replica.counts.results_refused == 1
    assert not replica.counts.ended
    assert dict(replica.counts.durations[AttemptOutcome.SUCCEEDED].cumulative())[float("inf")] == 0
    assert other.counts.leases_recovered == 1
    assert dict(other.counts.durations[AttemptOutcome.LOST].cumulative())[float("inf")] == 1


async def test_an_attempt_that_failed_after_a_cancel_request_counts_as_cancelled(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting()
    (claimed,) = await scheduling.claim_all(replica)
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = :at, cancel_reason = 'paused: no'",
        at=scheduling.clock.now,
    )
    await finish_batch(replica, [Attempt(claimed, AttemptOutcome.FAILED, "boom")])
    assert await scheduling.count(state="CANCELLED") == 1
    assert replica.counts.ended == {(State.CANCELLED, ReasonCode.CANCELLED): 1}


async def test_a_refresh_reports_executions_that_ended_with_a_removed_schedule(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule()
    await scheduling.waiting(schedule_id=schedule)
    await scheduling.waiting(schedule_id=schedule, state="RETRYING", attempt=1)
    await scheduling.execute("CREATE SCHEMA tenant_acme")
    await scheduling.execute(
        "UPDATE tenantcron.tenant SET schedule_revision = 1, status = 'deprovisioned'"
    )
    refreshed = await refresh(
        scheduling.database, TenantScheduleProvider(), at=scheduling.clock.now
    )
    assert refreshed.ended == {
        (State.SKIPPED, ReasonCode.REMOVED): 1,
        (State.CANCELLED, ReasonCode.REMOVED): 1,
    }


@pytest.mark.parametrize("number", [0, 1, 500])
async def test_the_counts_of_a_batch_add_up(scheduling: Scheduling, number: int) -> None:
    replica = scheduling.replica()
    await scheduling.limit(1000, 1000)
    if number:
        await scheduling.waiting(number)
    started = await scheduling.claim_all(replica)
    await finish_batch(
        replica, [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
    )
    assert replica.counts.ended.total() == number
    assert dict(replica.counts.lateness.cumulative())[float("inf")] == number


async def test_a_lease_that_another_replica_took_over_counts_as_lost(
    scheduling: Scheduling,
) -> None:
    replica, began = scheduling.replica(), asyncio.Event()

    async def hang(_: Execution) -> None:
        began.set()
        await asyncio.Event().wait()

    executor = Executor(Handlers.of([handler(hang, "work")]), lambda _: NoDatabase())
    await scheduling.waiting()
    (claimed,) = await scheduling.claim_all(replica)
    running = asyncio.create_task(executor.run(claimed, SETTINGS))
    await began.wait()
    await keep_up(replica, executor)
    assert replica.counts.leases_lost == 0

    scheduling.clock.advance(hours=1)
    assert await recover_lost(scheduling.replica("two")) == 1
    await keep_up(replica, executor)

    assert replica.counts.leases_lost == 1
    assert (await running).outcome is AttemptOutcome.LOST


async def test_a_scheduler_is_ready_from_its_start_to_its_stop(
    real: Scheduling,
) -> None:
    async with made(real, Works()) as run:
        assert not run.is_ready
        running = asyncio.create_task(run.run())

        async def ready() -> bool:
            return run.is_ready

        await until(ready)
        run.stop()
        assert not run.is_ready
        await running


async def test_sagas_are_counted_up_to_a_bound_and_the_others_together(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.scheduler.metrics.counts.MOST_SAGAS", 1)
    replica = scheduling.replica()
    await scheduling.waiting(2, saga_name="invoice", scheduled_for=NOON - timedelta(seconds=7))
    invoices = await scheduling.claim_all(replica)
    await scheduling.waiting(1, saga_name="mail")
    mails = await scheduling.claim_all(replica)
    attempts = [Attempt(claimed, AttemptOutcome.SUCCEEDED, None) for claimed in invoices + mails]
    await finish_batch(replica, attempts)

    sagas = replica.counts.sagas
    assert sagas.ended == {
        ("invoice", State.SUCCEEDED): 2,
        ("other", State.SUCCEEDED): 1,
    }
    assert dict(sagas.delays["invoice"].cumulative())[10.0] == 2
    assert dict(sagas.delays["invoice"].cumulative())[5.0] == 0
    assert dict(sagas.delays["other"].cumulative())[0.1] == 1


async def test_retries_are_counted_by_the_number_of_the_next_attempt(
    scheduling: Scheduling,
) -> None:
    replica = scheduling.replica()
    await scheduling.waiting(1)
    for _ in range(2):
        (claimed,) = await scheduling.claim_all(replica)
        await finish_batch(replica, [Attempt(claimed, AttemptOutcome.FAILED, "no")])
        scheduling.clock.advance(hours=1)
    assert replica.counts.retries == {2: 1, 3: 1}


def test_the_audit_runs_past_the_quietest_hour_of_the_next_day() -> None:
    busy = dict.fromkeys(range(24), 5)
    at_noon = quietest_hour(NOON, busy | {3: 1, 14: 2})
    assert at_noon == NOON + timedelta(hours=15, minutes=17)
    assert quietest_hour(NOON, {}) == NOON + timedelta(hours=1, minutes=17)


async def test_only_the_oldest_replica_audits(scheduling: Scheduling) -> None:
    settings = replace(scheduling.settings, metrics_audit_interval=timedelta(minutes=1))
    loops = []
    for name in ("first", "second"):
        report = WorkerReport(id=name, service="scheduler", running=0, abandoned=0, draining=False)
        async with scheduling.database.transaction() as connection:
            await workers.report(connection, report, None)
        replica = replace(scheduling.replica(name), settings=settings)
        loops.append((replica, MaintenanceLoops(replica)))
    for _, loop in loops:
        await loop.audit()
    assert [replica.counts.audited is not None for replica, _ in loops] == [True, False]


@pytest.mark.parametrize("interval", [None, timedelta(minutes=1)])
async def test_a_scheduler_audits_the_last_day_if_configured(
    real: Scheduling, interval: timedelta | None
) -> None:
    # The row of an occurrence that was fired an hour ago is missing.
    hour = timedelta(hours=1)
    await real.schedule(cron="0 0 1 1 *")
    await real.execute(
        "UPDATE tenantcron.schedule_cursor SET cron_expr = '0 * * * *', effective_from ="
        " now() - interval '3 hours', last_run_at = date_trunc('hour', now()),"
        " next_run_at = date_trunc('hour', now()) + interval '1 hour'"
    )
    settings = replace(real.settings, metrics_audit_interval=interval, refresh_interval=hour)
    replica = Replica(real.database, settings)
    executor = Executor(Handlers.of([]), lambda _: NoDatabase())
    run = ReplicaRun(replica, executor, ())
    running = asyncio.create_task(run.run())

    async def audited() -> bool:
        return replica.counts.audited is not None or (interval is None and run.is_ready)

    with capture_logs() as logs:
        await until(audited)
        run.stop()
        await running
    found = [line for line in logs if line["event"] == "audit_found"]
    if interval is None:
        assert (replica.counts.audited, found) == (None, [])
        return
    assert replica.counts.audited is not None
    assert replica.counts.audited.findings["lost"] >= 2
    assert found[0]["findings"]["lost"] == replica.counts.audited.findings["lost"]
