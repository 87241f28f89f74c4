"""Stopping handlers: outcomes, abandoned handlers and log lines, with a fake clock."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs
from support.attempts import SETTINGS, claimed
from support.handlers import NoDatabase, doing_nothing, handler, raising, runs, tasks_at_work

from tenantcron.scheduler.steps.attempts import AttemptOutcome, Stop
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.execution import Execution
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Cancelled, Fail

STOPS = [Stop.CANCELLED, Stop.INTERRUPTED, Stop.LOST]


# Async handlers


class Hanging:
    """An async handler that never ends; it runs `clean_up` when it is cancelled."""

    def __init__(self, clean_up: Callable[[Execution], None] = doing_nothing) -> None:
        self.started = asyncio.Event()
        self.clean_up = clean_up

    async def run(self, execution: Execution) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.clean_up(execution)


class Stubborn:
    """An async handler that ignores its cancellation."""

    def __init__(self) -> None:
        self.started, self.asked, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, _: Execution) -> None:
        self.started.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.asked.set()


async def test_an_async_handler_is_cancelled_at_its_timeout() -> None:
    hanging = Hanging()
    run = runs(hanging.run)
    task = run.start(claimed())
    await hanging.started.wait()

    run.time_is_up()

    attempt = await task
    assert (attempt.outcome, attempt.final) == (AttemptOutcome.TIMED_OUT, False)
    assert str(attempt.error).startswith("timed out after 5m\n")
    assert (run.executor.abandoned, run.executor.running, run.clock.pending) == (0, (), [])


async def test_the_error_of_a_timeout_shows_where_the_handler_was() -> None:
    hanging = Hanging()
    run = runs(hanging.run)
    task = run.start(claimed())
    await hanging.started.wait()

    run.time_is_up()

    assert "await asyncio.Event().wait()" in str((await task).error)


async def test_a_handler_that_ends_in_time_leaves_no_timer() -> None:
    run = runs(doing_nothing)

    await run.executor.run(claimed(), SETTINGS)

    assert run.clock.pending == []


@pytest.mark.parametrize("stop", STOPS)
async def test_the_stop_reason_of_an_async_handler_decides_the_outcome(stop: Stop) -> None:
    hanging, execution = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await hanging.started.wait()
    assert run.executor.running == (execution,)

    assert run.executor.cancel(execution.id, stop)

    assert (await task).outcome == stop.value
    assert run.executor.abandoned == 0


@pytest.mark.parametrize(
    ("stop", "why", "expected"),
    [
        (Stop.CANCELLED, "", "cancelled"),
        (Stop.CANCELLED, "cancelled by ada: wrong month", "cancelled by ada: wrong month"),
        (Stop.INTERRUPTED, "", "interrupted by shutdown"),
        (Stop.LOST, "", "worker lost"),
    ],
)
async def test_the_error_begins_with_the_stop_reason(stop: Stop, why: str, expected: str) -> None:
    hanging, execution = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await hanging.started.wait()

    run.executor.cancel(execution.id, stop, why)

    assert str((await task).error).splitlines()[0] == expected


async def test_an_execution_that_does_not_run_here_cannot_be_cancelled() -> None:
    assert not runs(doing_nothing).executor.cancel(UUID(int=1), Stop.CANCELLED)


async def test_one_of_two_claims_of_an_execution_can_be_stopped() -> None:
    hanging = Hanging()
    run = runs(hanging.run)
    lost, again = claimed(execution_id=UUID(int=1)), claimed(execution_id=UUID(int=1))
    lost_task, again_task = run.start(lost), run.start(again)
    await hanging.started.wait()

    run.executor.cancel(lost.id, Stop.LOST, lease_token=lost.lease_token)

    assert (await lost_task).outcome is AttemptOutcome.LOST
    assert run.executor.running == (again,)
    run.executor.cancel(again.id, Stop.CANCELLED)
    assert (await again_task).outcome is AttemptOutcome.CANCELLED


async def test_a_shutdown_interrupts_everything() -> None:
    hanging = Hanging()
    run = runs(hanging.run)
    tasks = [run.start(claimed()) for _ in range(3)]
    await hanging.started.wait()

    run.executor.interrupt_all()

    outcomes = {(await task).outcome for task in tasks}
    assert outcomes == {AttemptOutcome.INTERRUPTED}


async def test_a_handler_stopped_before_its_first_step_still_ends() -> None:
    run, execution = runs(Hanging().run), claimed()
    task = run.start(execution)
    # One step of the loop: the handler's task is created, and has not begun.
    await asyncio.sleep(0)

    run.executor.cancel(execution.id, Stop.CANCELLED)

    assert (await task).outcome is AttemptOutcome.CANCELLED
    assert (run.executor.abandoned, run.clock.pending) == (0, [])


async def test_the_first_stop_decides_the_outcome() -> None:
    hanging, execution = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await hanging.started.wait()

    run.executor.cancel(execution.id, Stop.CANCELLED)
    run.executor.cancel(execution.id, Stop.INTERRUPTED)

    assert (await task).outcome is AttemptOutcome.CANCELLED


@pytest.mark.parametrize("error", [ValueError("clean-up failed"), Fail("x"), SystemExit(2)])
async def test_an_exception_after_the_timeout_does_not_change_the_outcome(
    error: BaseException,
) -> None:
    hanging = Hanging(clean_up=raising(error))
    run = runs(hanging.run)
    task = run.start(claimed())
    await hanging.started.wait()

    run.time_is_up()

    attempt = await task
    assert (attempt.outcome, attempt.final) == (AttemptOutcome.TIMED_OUT, False)
    assert type(error).__name__ in str(attempt.error)


async def test_a_handler_that_swallows_its_cancellation_and_returns_has_not_succeeded() -> None:
    stubborn = Stubborn()
    run = runs(stubborn.run)
    task = run.start(claimed())
    await stubborn.started.wait()

    run.time_is_up()
    await stubborn.asked.wait()
    stubborn.may_end.set()

    attempt = await task
    assert (attempt.outcome, attempt.error) == (AttemptOutcome.TIMED_OUT, "timed out after 5m")
    assert (run.executor.abandoned, run.clock.pending) == (0, [])


async def test_an_async_handler_that_ignores_its_cancellation_is_abandoned() -> None:
    stubborn, execution = Stubborn(), claimed()
    run = runs(stubborn.run)
    task = run.start(execution)
    await stubborn.started.wait()
    run.time_is_up()
    await stubborn.asked.wait()
    assert not task.done()

    with capture_logs() as logs:
        run.grace_is_over()
        attempt = await task
        assert (run.executor.abandoned, run.executor.running) == (1, ())
        stubborn.may_end.set()
        await asyncio.gather(*tasks_at_work())

    assert attempt.outcome is AttemptOutcome.TIMED_OUT
    assert run.executor.abandoned == 0
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("handler_ignores_cancellation", "warning"),
        ("handler_ended_late", "warning"),
    ]
    assert {entry["execution"] for entry in logs} == {str(execution.id)}
    assert {entry["tenant"] for entry in logs} == {"acme"}


async def test_a_cancelled_caller_interrupts_the_handler() -> None:
    stopped = asyncio.Event()
    hanging = Hanging(clean_up=lambda _: stopped.set())
    run = runs(hanging.run)
    task = run.start(claimed())
    await hanging.started.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped.wait()
    await asyncio.gather(*tasks_at_work())
    assert (run.executor.running, run.executor.abandoned, run.clock.pending) == ((), 0, [])


# Plain handlers, which cannot be stopped


class HangingThread:
    """A plain handler that the test ends, and that reports how it ended."""

    def __init__(self) -> None:
        self.started, self.may_end = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None
        self.cancelled: list[bool] = []
        self.heard = False

    def run(self, execution: Execution) -> None:
        self.thread = threading.current_thread()
        self.cancelled.append(execution.cancelled)
        self.started.set()
        self.may_end.wait()
        self.cancelled.append(execution.cancelled)
        try:
            execution.raise_if_cancelled()
        except Cancelled:
            self.heard = True
            raise

    async def end(self) -> None:
        """End it, and wait until the loop has received its result."""
        self.may_end.set()
        assert self.thread is not None
        await asyncio.to_thread(self.thread.join)


async def test_plain_handlers_run_in_daemon_threads() -> None:
    threads: list[threading.Thread] = []
    run = runs(lambda _: threads.append(threading.current_thread()))

    for _ in range(2):
        await run.executor.run(claimed(), SETTINGS)

    assert len(set(threads)) == 2
    assert all(thread.daemon for thread in threads)
    assert threading.main_thread() not in threads


async def test_a_timed_out_plain_handler_holds_no_slot_and_is_counted_until_it_ends() -> None:
    hanging, execution = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await asyncio.to_thread(hanging.started.wait)

    with capture_logs() as logs:
        run.time_is_up()
        attempt = await task
        assert (run.executor.abandoned, run.executor.running) == (1, ())
        run.grace_is_over()
        await hanging.end()

    assert (attempt.outcome, attempt.error) == (AttemptOutcome.TIMED_OUT, "timed out after 5m")
    assert run.executor.abandoned == 0
    assert [entry["event"] for entry in logs] == [
        "handler_ignores_cancellation",
        "handler_ended_late",
    ]


async def test_a_plain_handler_that_cooperates_is_not_logged() -> None:
    hanging, execution = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await asyncio.to_thread(hanging.started.wait)

    with capture_logs() as logs:
        run.time_is_up()
        await task
        await hanging.end()

    assert (hanging.cancelled, hanging.heard) == ([False, True], True)
    assert (run.executor.abandoned, run.clock.pending, logs) == (0, [], [])


@pytest.mark.parametrize("stop", STOPS)
async def test_the_stop_reason_of_a_plain_handler_decides_the_outcome(stop: Stop) -> None:
    hanging, execution = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(execution)
    await asyncio.to_thread(hanging.started.wait)

    run.executor.cancel(execution.id, stop)

    assert (await task).outcome == stop.value
    await hanging.end()
    assert run.executor.abandoned == 0


def test_a_thread_that_outlives_the_loop_ends_silently() -> None:
    hanging = HangingThread()

    async def leave_it_running() -> None:
        run = runs(hanging.run)
        task = run.start(claimed())
        await asyncio.to_thread(hanging.started.wait)
        run.time_is_up()
        await task

    asyncio.run(leave_it_running())
    hanging.may_end.set()
    assert hanging.thread is not None
    hanging.thread.join()


async def test_without_a_fake_clock_the_loop_runs_the_timer() -> None:
    hanging = Hanging()
    executor = Executor(Handlers.of([handler(hanging.run)]), lambda _: NoDatabase())

    attempt = await executor.run(claimed(), SETTINGS._replace(timeout=timedelta(0)))

    assert attempt.outcome is AttemptOutcome.TIMED_OUT
