"""The Python worker of callbacks, against a real API."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.remote_work import RemoteWork, remote_work
from support.serving import ADA

from tenantcron import Fail
from tenantcron.client.callbacks import AttemptWork, CallbackWorker, WorkCancelled
from tenantcron.core.errors import UsageError
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.store.connection.engine import Database


@pytest.fixture
async def work(database: Database, tmp_path: Path) -> AsyncIterator[RemoteWork]:
    """An execution that is due."""
    async with remote_work(database, tmp_path) as running:
        yield running


async def started(work: RemoteWork) -> CallbackWorker:
    return CallbackWorker.of_headers((await work.accepted()).headers)


async def test_a_block_reports_its_progress_and_its_result(work: RemoteWork) -> None:
    worker = await started(work)

    def run() -> None:
        with worker.working() as attempt:
            attempt.progress(40, "page 2 of 5")
            worker.heartbeat(attempt)
            attempt.progress(60, "page 3 of 5")
            worker.heartbeat(attempt)
            attempt.result = {"pages": 5}

    await asyncio.to_thread(run)
    row = await work.row()
    assert (row["state"], row["progress"], row["progress_text"]) == (
        "SUCCEEDED",
        100,
        "page 3 of 5",
    )
    (attempt,) = await work.scheduling.attempts(row["id"])
    assert attempt.result == {"pages": 5}


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError("no paper"), "RETRYING"), (Fail("no such customer"), "DEAD")]
)
async def test_an_exception_is_reported_as_a_failure_and_propagates(
    work: RemoteWork, error: Exception, state: str
) -> None:
    worker = await started(work)

    def run() -> None:
        with worker.working():
            raise error

    with pytest.raises(type(error)):
        await asyncio.to_thread(run)
    assert ((await work.row())["state"], (await work.row())["reason"]) == (state, str(error))


async def test_a_cancellation_stops_the_work_and_ends_the_execution(work: RemoteWork) -> None:
    worker, scheduling = await started(work), work.scheduling
    operator = Operator(scheduling.database, scheduling.settings, ADA, scheduling.clock)
    await operator.cancel(str((await work.row())["id"]), "wrong month")

    def run() -> None:
        with worker.working() as attempt:
            worker.heartbeat(attempt)
            attempt.raise_if_cancelled()

    with pytest.raises(WorkCancelled, match="wrong month"):
        await asyncio.to_thread(run)
    assert (await work.row())["state"] == "CANCELLED"


async def test_the_work_of_an_attempt_that_is_over_is_cancelled(work: RemoteWork) -> None:
    worker, attempt = await started(work), AttemptWork()
    await asyncio.to_thread(worker.complete)
    await asyncio.to_thread(worker.heartbeat, attempt)
    assert attempt.cancelled


def test_a_request_without_callback_headers_is_refused() -> None:
    with pytest.raises(UsageError, match="its target needs `completion: callback`"):
        CallbackWorker.of_headers({"X-Tenantcron-Attempt": "1"})


async def test_progress_of_any_size_is_cut_to_what_the_api_accepts(work: RemoteWork) -> None:
    worker, attempt = await started(work), AttemptWork()
    for percent, expected in ((250.7, 100), (-3, 0), (33.4, 33), (float("nan"), 0)):
        attempt.progress(percent, "page \ud800 " + "x" * 500)
        assert await asyncio.to_thread(worker.heartbeat, attempt)
        row = await work.row()
        assert row["progress"] == expected
        assert row["progress_text"].startswith("page ? xxx")
        assert len(row["progress_text"]) == 200


async def test_a_heartbeat_whose_values_are_refused_is_repeated_without_them(
    work: RemoteWork, caplog: pytest.LogCaptureFixture
) -> None:
    worker, attempt = await started(work), AttemptWork()
    attempt._percent = 400
    work.scheduling.clock.advance(seconds=25)
    assert await asyncio.to_thread(worker.heartbeat, attempt)
    row = await work.row()
    assert row["heartbeat_at"] == work.scheduling.clock.now
    assert "a heartbeat was refused, progress is dropped" in caplog.text


async def test_work_that_is_done_is_completed_although_its_result_is_refused(
    work: RemoteWork, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await started(work)

    def run() -> None:
        with worker.working() as attempt:
            attempt.result = "x" * 20_000

    await asyncio.to_thread(run)
    assert (await work.row())["state"] == "SUCCEEDED"
    assert "the result was refused" in caplog.text


async def test_a_second_delivery_waits_and_is_dropped_while_the_first_one_lives(
    work: RemoteWork,
) -> None:
    address = replace((await started(work)).address, heartbeat=1.0)
    first, second = CallbackWorker(address, "a"), CallbackWorker(address, "b")
    begun = await asyncio.to_thread(first.begin)
    assert begun is not None
    assert not begun.is_over
    other = await asyncio.to_thread(second.begin)
    assert other is not None
    assert (other.is_over, other.has_other_delivery) == (True, True)
    # It takes over from a worker that was killed.
    work.scheduling.clock.advance(seconds=26)
    taken = await asyncio.to_thread(second.begin)
    assert taken is not None
    assert not taken.is_over


async def test_a_worker_that_was_replaced_reports_no_failure(work: RemoteWork) -> None:
    address = (await started(work)).address
    first, second = CallbackWorker(address, "a"), CallbackWorker(address, "b")

    def run() -> None:
        # Begun before, so that no heartbeat of its thread comes in between.
        with first.working(first.begin()) as attempt:
            work.scheduling.clock.advance(seconds=26)
            second.begin()
            first.heartbeat(attempt)
            attempt.raise_if_cancelled()

    with pytest.raises(WorkCancelled, match="another worker"):
        await asyncio.to_thread(run)
    assert (await work.row())["state"] == "RUNNING"
