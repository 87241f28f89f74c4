"""Every order of a report of a remote worker and what else ends or changes its attempt."""

from datetime import timedelta

from interleavings.conftest import Theatre
from support.interleaving import Program, Ran
from support.stages import Stage

from tenantcron.actor.execution_tokens import lease_digest
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.callbacks import (
    Callbacks,
    RecordedReport,
    RemoteFailure,
    RemoteWorker,
    StaleAttemptError,
)
from tenantcron.scheduler.steps.finish import finish_batch, recover_lost
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import ConflictError
from tenantcron.store.steps import callbacks
from tenantcron.store.steps.callbacks import HandedOver, RemoteLimits, WorkerProgress
from tenantcron.store.steps.claiming import Claimed

PROGRESS = WorkerProgress()


async def running(stage: Stage) -> Claimed:
    await stage.scheduling.waiting(1)
    (claimed,) = (await stage.scheduling.claim()).started
    return claimed


async def hand_over(stage: Stage, claimed: Claimed, database: Database) -> bool:
    now = stage.scheduling.clock.now
    limits = RemoteLimits(timedelta(seconds=30), now + timedelta(minutes=10))
    async with database.transaction() as connection:
        attempt = HandedOver(claimed, lease_digest(*claimed.lease), limits)
        return await callbacks.hand_over(connection, attempt, now)


def handing_over(stage: Stage, claimed: Claimed) -> Program:
    return lambda database: hand_over(stage, claimed, database)


def completing(stage: Stage, claimed: Claimed) -> Program:
    worker = RemoteWorker(claimed.id, lease_digest(*claimed.lease))

    async def complete(database: Database) -> RecordedReport:
        reporting = Callbacks(stage.replica(database, "api"))
        return await reporting.complete(worker, None, PROGRESS)

    return complete


def failing(stage: Stage, claimed: Claimed) -> Program:
    worker = RemoteWorker(claimed.id, lease_digest(*claimed.lease))

    async def fail(database: Database) -> RecordedReport:
        reporting = Callbacks(stage.replica(database, "api"))
        return await reporting.fail(worker, RemoteFailure("no", retryable=False), PROGRESS)

    return fail


async def test_a_completion_and_an_expiry_never_both_end_an_attempt(theatre: Theatre) -> None:
    stage = theatre.stage
    claimed = await running(stage)
    assert await hand_over(stage, claimed, stage.scheduling.database)
    stage.scheduling.clock.advance(minutes=5)
    programs: dict[str, Program] = {
        "complete": completing(stage, claimed),
        "expire": lambda database: recover_lost(stage.replica(database, "two")),
    }
    states: set[object] = set()

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        states.add(execution["state"])
        report, expired = ran.results["complete"], ran.results["expire"]
        assert not isinstance(expired, Exception), expired
        if execution["state"] == "SUCCEEDED":
            assert isinstance(report, RecordedReport)
            assert expired == 0
        else:
            assert execution["state"] == "RETRYING"
            assert isinstance(report, StaleAttemptError), report
            assert expired == 1

    assert await theatre.every_order(programs, check) > 1
    assert states == {"SUCCEEDED", "RETRYING"}


async def test_a_completion_is_not_lost_to_a_cancellation(theatre: Theatre) -> None:
    stage = theatre.stage
    claimed = await running(stage)
    assert await hand_over(stage, claimed, stage.scheduling.database)
    programs = {"complete": completing(stage, claimed), "cancel": stage.cancel(claimed.id)}

    async def check(ran: Ran) -> None:
        assert isinstance(ran.results["complete"], RecordedReport), ran.results["complete"]
        (execution,) = await stage.executions()
        assert execution["state"] == "SUCCEEDED"

    assert await theatre.every_order(programs, check) > 1


async def test_of_two_reports_the_first_is_recorded_and_both_are_answered_with_it(
    theatre: Theatre,
) -> None:
    stage = theatre.stage
    claimed = await running(stage)
    assert await hand_over(stage, claimed, stage.scheduling.database)
    programs = {"complete": completing(stage, claimed), "fail": failing(stage, claimed)}
    states: set[object] = set()

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        states.add(execution["state"])
        reports = [ran.results["complete"], ran.results["fail"]]
        assert all(isinstance(report, RecordedReport) for report in reports), reports
        outcomes = {report.outcome for report in reports if isinstance(report, RecordedReport)}
        assert outcomes == {"SUCCEEDED" if execution["state"] == "SUCCEEDED" else "FAILED"}

    assert await theatre.every_order(programs, check) > 1
    assert states == {"SUCCEEDED", "DEAD"}


async def test_a_report_counts_as_soon_as_the_lease_has_moved(
    theatre: Theatre,
) -> None:
    stage = theatre.stage
    claimed = await running(stage)
    programs = {"hand over": handing_over(stage, claimed), "complete": completing(stage, claimed)}

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        report = ran.results["complete"]
        if execution["state"] == "SUCCEEDED":
            assert isinstance(report, RecordedReport)
        else:
            # No worker has the token before the hand-over: it is sent afterwards.
            assert isinstance(report, StaleAttemptError), report
            assert execution["handed_over_attempt"] == 1
        assert ran.results["hand over"] is True

    assert await theatre.every_order(programs, check) > 1


async def test_a_report_and_the_failed_call_of_the_replica_never_both_count(
    theatre: Theatre,
) -> None:
    stage = theatre.stage
    claimed = await running(stage)
    assert await hand_over(stage, claimed, stage.scheduling.database)
    failed = Attempt(claimed, AttemptOutcome.FAILED, "lost the connection", final=True)
    programs: dict[str, Program] = {
        "complete": completing(stage, claimed),
        "call": lambda database: finish_batch(stage.replica(database, "one"), [failed]),
    }

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        report = ran.results["complete"]
        assert not isinstance(ran.results["call"], Exception) or isinstance(
            ran.results["call"], ConflictError
        )
        if execution["state"] == "SUCCEEDED":
            assert isinstance(report, RecordedReport)
        else:
            assert isinstance(report, StaleAttemptError), report

    assert await theatre.every_order(programs, check) > 1
