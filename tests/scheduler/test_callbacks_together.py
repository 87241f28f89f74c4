"""Reports of remote workers that arrive at the same time share transactions."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import event, text
from support.scheduling import Scheduling

from tenantcron.actor.execution_tokens import lease_digest
from tenantcron.scheduler.steps.callbacks import (
    Callbacks,
    RecordedReport,
    RemoteFailure,
    RemoteWorker,
    StaleAttemptError,
)
from tenantcron.service.problems import ApiProblem
from tenantcron.service.rate_limits import ReportLimit
from tenantcron.store.steps import callbacks
from tenantcron.store.steps.callbacks import HandedOver, RemoteLimits, WorkerProgress

NOTHING = WorkerProgress()
Workers = list[RemoteWorker]


async def handed_over(scheduling: Scheduling, number: int) -> Workers:
    await scheduling.waiting(number)
    await scheduling.limit(number, number)
    limits = RemoteLimits(timedelta(seconds=30), scheduling.clock.now + timedelta(minutes=10))
    workers = []
    for claimed in await scheduling.claim_all():
        digest = lease_digest(*claimed.lease)
        async with scheduling.database.transaction() as connection:
            attempt = HandedOver(claimed, digest, limits)
            await callbacks.hand_over(connection, attempt, scheduling.clock.now)
        workers.append(RemoteWorker(claimed.id, digest))
    return workers


def commits(scheduling: Scheduling) -> Callable[[], int]:
    """Return a counter of the transactions from now on."""
    seen: list[object] = []
    event.listen(scheduling.database.engine.sync_engine, "commit", seen.append)
    return lambda: len(seen)


async def states(scheduling: Scheduling) -> dict[UUID, object]:
    return {row["id"]: row["state"] for row in await scheduling.rows()}


async def test_concurrent_completions_are_recorded_in_few_transactions(
    scheduling: Scheduling,
) -> None:
    workers = await handed_over(scheduling, 40)
    reports = Callbacks(scheduling.replica("api"))
    transactions = commits(scheduling)
    found = await asyncio.gather(
        *(
            reports.complete(worker, f'{{"row": {number}}}', WorkerProgress(100, "done"))
            for number, worker in enumerate(workers)
        )
    )
    assert transactions() <= 2
    assert {report.state.value for report in found} == {"SUCCEEDED"}
    assert set((await states(scheduling)).values()) == {"SUCCEEDED"}
    for number, worker in enumerate(workers):
        (attempt,) = await scheduling.attempts(worker.execution)
        assert attempt.result == {"row": number}


async def test_each_report_of_a_batch_has_its_own_outcome(scheduling: Scheduling) -> None:
    good, bad, stranger = await handed_over(scheduling, 3)
    reports = Callbacks(scheduling.replica("api"))
    failure = RemoteFailure("no such customer", retryable=False)
    completed, failed, stale, repeated = await asyncio.gather(
        reports.complete(good, None, NOTHING),
        reports.fail(bad, failure, NOTHING),
        reports.complete(RemoteWorker(stranger.execution, "0" * 32), None, NOTHING),
        reports.complete(good, None, NOTHING),
        return_exceptions=True,
    )
    assert isinstance(completed, RecordedReport)
    assert isinstance(failed, RecordedReport)
    assert isinstance(repeated, RecordedReport)
    assert (completed.state.value, completed.repeated) == ("SUCCEEDED", False)
    assert (failed.state.value, failed.outcome) == ("DEAD", "FAILED")
    assert isinstance(stale, StaleAttemptError)
    assert (repeated.state.value, repeated.repeated) == ("SUCCEEDED", True)
    assert (await states(scheduling))[stranger.execution] == "RUNNING"


async def test_a_locked_execution_delays_only_its_own_reports(scheduling: Scheduling) -> None:
    held, *others = await handed_over(scheduling, 5)
    reports = Callbacks(scheduling.replica("api"))
    async with scheduling.database.transaction() as connection:
        await connection.execute(
            text("SELECT FROM tenantcron.execution WHERE id = :id FOR UPDATE"),
            {"id": held.execution},
        )
        waiting = asyncio.create_task(reports.complete(held, None, NOTHING))
        renewed = [reports.heartbeat(worker, NOTHING) for worker in others]
        assert len(await asyncio.gather(*renewed)) == 4
        completed = [reports.complete(worker, None, NOTHING) for worker in others]
        assert len(await asyncio.gather(*completed)) == 4
        assert not waiting.done()
    assert (await waiting).state.value == "SUCCEEDED"


async def test_a_value_that_the_database_refuses_fails_its_own_report_only(
    scheduling: Scheduling,
) -> None:
    good, bad = await handed_over(scheduling, 2)
    reports = Callbacks(scheduling.replica("api"))
    recorded, refused = await asyncio.gather(
        reports.complete(good, "{}", NOTHING),
        reports.complete(bad, "{not json", NOTHING),
        return_exceptions=True,
    )
    assert isinstance(recorded, RecordedReport)
    assert isinstance(refused, Exception)
    assert await states(scheduling) == {good.execution: "SUCCEEDED", bad.execution: "RUNNING"}


async def test_heartbeats_and_repeated_reports_are_limited_per_execution(
    scheduling: Scheduling,
) -> None:
    busy, other = await handed_over(scheduling, 2)
    reports = Callbacks(scheduling.replica("api"), ReportLimit(scheduling.database, 3).admit)
    found = await asyncio.gather(
        *(reports.heartbeat(busy, NOTHING) for _ in range(3)), reports.heartbeat(other, NOTHING)
    )
    assert not any(answer.cancel for answer in found)
    with pytest.raises(ApiProblem, match="3 requests per minute"):
        await reports.heartbeat(busy, NOTHING)
    # The end of an attempt is recorded once, so it needs no limit; a repeated report does.
    assert (await reports.complete(busy, None, NOTHING)).state.value == "SUCCEEDED"
    with pytest.raises(ApiProblem, match="3 requests per minute"):
        await reports.complete(busy, None, NOTHING)
