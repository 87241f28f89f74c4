"""One claimed execution, run to the end of its attempt. No test waits: events and hands do."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
import structlog
from structlog.testing import capture_logs
from support.attempts import (
    SCHEDULED_FOR,
    SCHEDULER,
    SETTINGS,
    STARTED_AT,
    HandClock,
    claimed,
    with_payload,
)

from tenantcron.actor.context import current_actor, current_correlation_id
from tenantcron.actor.model import Actor, scheduler_actor
from tenantcron.manifests.desired import HttpTarget
from tenantcron.scheduler.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.execute import GRACE, Executor
from tenantcron.store.claiming import Claimed
from tenantcron.targets import calls
from tenantcron.targets.execution import AsyncTransaction, Execution, Transaction
from tenantcron.targets.registry import Handler, HandlerFunction, Handlers, Place
from tenantcron.targets.signals import Cancelled, Fail, Retry

STOPS = [Stop.CANCELLED, Stop.INTERRUPTED, Stop.LOST]


class NoDatabase:
    """For handlers that need none."""

    def begin(self) -> AsyncTransaction:
        raise AssertionError

    def begin_plain(self) -> Transaction:
        raise AssertionError


def handler(function: HandlerFunction, saga: str = "reconcile") -> Handler:
    return Handler(saga, function, asyncio.iscoroutinefunction(function), Place("m", "f", "x", 1))


@dataclass(frozen=True, slots=True)
class Runs:
    """An executor whose clock the test moves by hand."""

    executor: Executor
    clock: HandClock

    def start(self, of: Claimed) -> asyncio.Task[Attempt]:
        """Start an execution."""
        return asyncio.create_task(self.executor.run(of, SETTINGS))

    def time_is_up(self) -> None:
        """Let the one timer go off that is there."""
        (timer,) = self.clock.pending
        assert timer.seconds == SETTINGS.timeout.total_seconds()
        timer.go_off()

    def grace_is_over(self) -> None:
        """Let the one timer go off that is there."""
        (timer,) = self.clock.pending
        assert timer.seconds == GRACE.total_seconds()
        timer.go_off()


def runs(function: HandlerFunction) -> Runs:
    clock = HandClock()
    handlers = Handlers.of([handler(function)])
    return Runs(Executor(handlers, lambda _: NoDatabase(), call_later=clock), clock)


async def attempt_of(function: HandlerFunction) -> Attempt:
    return await runs(function).executor.run(claimed(), SETTINGS)


def in_both_ways(act: Callable[[Execution], None]) -> list[HandlerFunction]:
    async def in_the_loop(execution: Execution) -> None:
        act(execution)

    def in_a_thread(execution: Execution) -> None:
        act(execution)

    return [in_the_loop, in_a_thread]


def raising(error: BaseException) -> Callable[[Execution], None]:
    def act(_: Execution) -> None:
        raise error

    return act


def doing_nothing(_: Execution) -> None:
    """Do nothing, successfully."""


# How a handler ends


@pytest.mark.parametrize("function", in_both_ways(doing_nothing))
async def test_a_handler_that_returns_has_succeeded(function: HandlerFunction) -> None:
    one = claimed()

    attempt = await runs(function).executor.run(one, SETTINGS)

    assert attempt == Attempt(one, AttemptOutcome.SUCCEEDED)


@pytest.mark.parametrize("function", in_both_ways(raising(ValueError("no such meter"))))
async def test_a_handler_that_raises_has_failed_with_the_error_in_full(
    function: HandlerFunction,
) -> None:
    attempt = await attempt_of(function)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
    assert attempt.error is not None
    assert attempt.error.splitlines()[0] == "ValueError: no such meter"
    assert "raise error" in attempt.error


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
        Cancelled(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("way", [0, 1], ids=["in the loop", "in a thread"])
async def test_no_handler_takes_the_scheduler_down(error: BaseException, way: int) -> None:
    attempt = await attempt_of(in_both_ways(raising(error))[way])

    assert attempt.outcome is AttemptOutcome.FAILED
    assert attempt.error is not None
    assert type(error).__name__ in attempt.error


async def test_a_handler_that_takes_no_execution_has_failed() -> None:
    async def takes_nothing() -> None: ...

    attempt = await attempt_of(takes_nothing)  # type: ignore[arg-type]

    assert "TypeError" in str(attempt.error)


@pytest.mark.parametrize("function", in_both_ways(raising(Retry("bank closed", after=90))))
async def test_a_handler_can_ask_for_a_retry_and_say_when(function: HandlerFunction) -> None:
    attempt = await attempt_of(function)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
    assert attempt.retry_after == timedelta(seconds=90)
    assert str(attempt.error).startswith("bank closed\n")


@pytest.mark.parametrize("function", in_both_ways(raising(Fail("no such customer"))))
async def test_a_handler_can_say_that_a_retry_is_no_use(function: HandlerFunction) -> None:
    attempt = await attempt_of(function)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert str(attempt.error).startswith("no such customer\n")


async def test_an_async_function_behind_a_plain_decorator_does_not_count_as_done() -> None:
    async def work(_: Execution) -> None: ...

    attempt = await attempt_of(lambda execution: work(execution))  # noqa: PLW0108 -- plain outside

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert "async def" in str(attempt.error)


async def test_a_system_without_threads_fails_the_attempt_and_may_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(calls, "Thread", no_thread)
    run = runs(doing_nothing)

    attempt = await run.executor.run(claimed(), SETTINGS)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
    assert "can't start new thread" in str(attempt.error)
    assert (run.executor.running, run.clock.pending) == ((), [])


# What cannot be started


async def test_a_saga_without_a_handler_fails_for_good_and_is_told_what_to_do() -> None:
    attempt = await runs(doing_nothing).executor.run(claimed("reconsile"), SETTINGS)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    said = str(attempt.error)
    assert said.startswith("no handler for saga `reconsile` among the loaded ones")
    assert "did you mean reconcile?" in said
    assert "--handlers" in said


async def test_an_http_target_fails_for_good_also_where_a_handler_has_the_name() -> None:
    target = HttpTarget("https://billing.internal/run", "POST", {})

    attempt = await runs(doing_nothing).executor.run(claimed(), SETTINGS, target)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert attempt.error == "HTTP targets are not there yet"


async def test_a_placeholder_that_nothing_fills_fails_for_good() -> None:
    run = runs(doing_nothing)

    attempt = await run.executor.run(claimed(), with_payload({"x": "{{whatever}}"}))

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert "whatever" in str(attempt.error)


# What a handler is given


async def test_a_handler_is_given_all_of_its_execution() -> None:
    given: list[Execution] = []
    one = claimed(attempt=2)

    await runs(given.append).executor.run(one, SETTINGS)

    (execution,) = given
    assert (execution.id, execution.tenant_id) == (one.id, "acme")
    assert (execution.schedule_name, execution.saga_name) == ("nightly", "reconcile")
    assert (execution.scheduled_for, execution.attempt) == (SCHEDULED_FOR, 2)
    assert execution.deadline == STARTED_AT + timedelta(minutes=5)
    assert (execution.actor, execution.cancelled) == (SCHEDULER, False)


async def test_the_payload_is_filled() -> None:
    given: list[Execution] = []
    one = claimed()
    payload = with_payload(
        {"at": "{{fire_time}}", "key": ["{{tenant}}/{{ schedule }}/{{execution_id}}"], "n": 5}
    )

    await runs(given.append).executor.run(one, payload)

    assert given[0].payload == {
        "at": "2026-11-16T02:00:00+00:00",
        "key": [f"acme/nightly/{one.id}"],
        "n": 5,
    }


async def test_what_a_handler_does_to_its_payload_is_not_seen_by_the_next() -> None:
    seen: list[object] = []

    def spoil(execution: Execution) -> None:
        steps = execution.payload["steps"]
        assert isinstance(steps, list)
        seen.append(list(steps))
        steps.append("spoilt")
        execution.payload["more"] = True

    executor, settings = runs(spoil).executor, with_payload({"steps": ["one"]})
    for _ in range(2):
        await executor.run(claimed(), settings)

    assert seen == [["one"], ["one"]]


# Context


@dataclass(frozen=True)
class Seen:
    """What the context said to a handler."""

    actor: object
    correlation_id: UUID | None
    log: dict[str, object]


def seen() -> Seen:
    fields = structlog.contextvars.get_contextvars()
    return Seen(current_actor(), current_correlation_id(), fields)


def expected(of: Claimed) -> Seen:
    fields = {
        "tenant": of.tenant_id,
        "schedule": of.schedule_name,
        "saga": of.saga_name,
        "execution": str(of.id),
        "attempt": of.attempt,
    }
    return Seen(of.actor, of.id, fields)


async def test_contexts_never_mix_however_many_run_at_once() -> None:
    many = 200
    found: dict[UUID, list[Seen]] = {}
    all_in, in_threads = asyncio.Barrier(many), threading.Barrier(20)

    async def in_the_loop(execution: Execution) -> None:
        before = seen()
        await all_in.wait()
        found[execution.id] = [before, seen(), await asyncio.to_thread(seen)]

    def in_a_thread(execution: Execution) -> None:
        before = seen()
        in_threads.wait()
        found[execution.id] = [before, seen()]

    handlers = [handler(in_the_loop, "loop"), handler(in_a_thread, "thread")]
    executor = Executor(Handlers.of(handlers), lambda _: NoDatabase())
    ones = [
        claimed(saga, tenant=f"t{number}", actor=_actor(number))
        for saga, count in (("loop", many), ("thread", 20))
        for number in range(count)
    ]
    attempts = await asyncio.gather(*(executor.run(one, SETTINGS) for one in ones))

    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.SUCCEEDED}
    for one in ones:
        assert set_of(found[one.id]) == [expected(one)]


def set_of(many: list[Seen]) -> list[Seen]:
    """Return the different ones."""
    return [one for index, one in enumerate(many) if one not in many[:index]]


def _actor(number: int) -> Actor:
    return scheduler_actor(f"service-{number}")


@pytest.mark.parametrize("function", in_both_ways(doing_nothing))
async def test_nothing_of_the_context_stays_with_the_caller(function: HandlerFunction) -> None:
    executor = runs(function).executor

    await executor.run(claimed(), SETTINGS)

    assert seen() == Seen(None, None, {})


TRACE: ContextVar[str] = ContextVar("trace", default="none")


@pytest.mark.parametrize("way", [0, 1], ids=["in the loop", "in a thread"])
async def test_a_handler_sees_what_else_its_caller_has_in_context(way: int) -> None:
    found: list[str] = []
    TRACE.set("of the caller")

    await attempt_of(in_both_ways(lambda _: found.append(TRACE.get()))[way])

    assert found == ["of the caller"]


# Stopping async handlers


class Hanging:
    """An async handler that does not end by itself; `clean_up` is what it does when cancelled."""

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
    """An async handler that does not let itself be cancelled."""

    def __init__(self) -> None:
        self.started, self.asked, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, _: Execution) -> None:
        self.started.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.asked.set()


async def test_an_async_handler_is_cancelled_when_its_time_is_up() -> None:
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


async def test_no_timer_is_left_of_a_handler_that_ended_in_time() -> None:
    run = runs(doing_nothing)

    await run.executor.run(claimed(), SETTINGS)

    assert run.clock.pending == []


@pytest.mark.parametrize("stop", STOPS)
async def test_who_stops_an_async_handler_decides_how_its_attempt_ends(stop: Stop) -> None:
    hanging, one = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
    await hanging.started.wait()
    assert run.executor.running == (one,)

    assert run.executor.cancel(one.id, stop)

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
async def test_the_error_begins_with_why_it_was_stopped(
    stop: Stop, why: str, expected: str
) -> None:
    hanging, one = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
    await hanging.started.wait()

    run.executor.cancel(one.id, stop, why)

    assert str((await task).error).splitlines()[0] == expected


async def test_an_execution_that_does_not_run_here_cannot_be_cancelled() -> None:
    assert not runs(doing_nothing).executor.cancel(UUID(int=1), Stop.CANCELLED)


async def test_of_an_execution_that_was_claimed_twice_one_claim_can_be_stopped() -> None:
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


async def test_a_handler_that_was_stopped_before_its_first_step_ends_all_the_same() -> None:
    run, one = runs(Hanging().run), claimed()
    task = run.start(one)
    # One step of the task: the handler's own task is made, and has not begun.
    await asyncio.sleep(0)

    run.executor.cancel(one.id, Stop.CANCELLED)

    assert (await task).outcome is AttemptOutcome.CANCELLED
    assert (run.executor.abandoned, run.clock.pending) == (0, [])


async def test_the_first_who_stops_it_decides() -> None:
    hanging, one = Hanging(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
    await hanging.started.wait()

    run.executor.cancel(one.id, Stop.CANCELLED)
    run.executor.cancel(one.id, Stop.INTERRUPTED)

    assert (await task).outcome is AttemptOutcome.CANCELLED


@pytest.mark.parametrize("error", [ValueError("clean-up failed"), Fail("x"), SystemExit(2)])
async def test_whatever_a_handler_raises_after_its_time_is_up_it_has_timed_out(
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


async def test_an_async_handler_that_ignores_its_cancellation_is_abandoned_after_the_grace() -> (
    None
):
    stubborn, one = Stubborn(), claimed()
    run = runs(stubborn.run)
    task = run.start(one)
    await stubborn.started.wait()
    run.time_is_up()
    await stubborn.asked.wait()
    assert not task.done()

    with capture_logs() as logs:
        run.grace_is_over()
        attempt = await task
        assert (run.executor.abandoned, run.executor.running) == (1, ())
        stubborn.may_end.set()
        await asyncio.gather(*_others())

    assert attempt.outcome is AttemptOutcome.TIMED_OUT
    assert run.executor.abandoned == 0
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("handler_ignores_cancellation", "warning"),
        ("handler_ended_late", "warning"),
    ]
    assert {entry["execution"] for entry in logs} == {str(one.id)}
    assert {entry["tenant"] for entry in logs} == {"acme"}


def _others() -> set[asyncio.Task[object]]:
    """All tasks but this one; the plugin's own runner is among them and never ends."""
    mine = asyncio.current_task()
    named = {task for task in asyncio.all_tasks() if "_in_task" in repr(task.get_coro())}
    return {task for task in named if task is not mine}


async def test_a_caller_that_is_cancelled_itself_interrupts_the_handler() -> None:
    stopped = asyncio.Event()
    hanging = Hanging(clean_up=lambda _: stopped.set())
    run = runs(hanging.run)
    task = run.start(claimed())
    await hanging.started.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped.wait()
    await asyncio.gather(*_others())
    assert (run.executor.running, run.executor.abandoned, run.clock.pending) == ((), 0, [])


# Stopping plain handlers, which nobody can stop


class HangingThread:
    """A plain handler that ends when the test says so, and tells how."""

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
        """Let it end, and wait until it has; what it told the loop comes before this returns."""
        self.may_end.set()
        assert self.thread is not None
        await asyncio.to_thread(self.thread.join)


async def test_plain_handlers_run_in_daemon_threads_of_their_own() -> None:
    threads: list[threading.Thread] = []
    run = runs(lambda _: threads.append(threading.current_thread()))

    for _ in range(2):
        await run.executor.run(claimed(), SETTINGS)

    assert len(set(threads)) == 2
    assert all(thread.daemon for thread in threads)
    assert threading.main_thread() not in threads


async def test_a_plain_handler_whose_time_is_up_holds_no_slot_and_is_counted_until_it_ends() -> (
    None
):
    hanging, one = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
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


async def test_a_plain_handler_that_cooperates_is_not_blamed() -> None:
    hanging, one = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
    await asyncio.to_thread(hanging.started.wait)

    with capture_logs() as logs:
        run.time_is_up()
        await task
        await hanging.end()

    assert (hanging.cancelled, hanging.heard) == ([False, True], True)
    assert (run.executor.abandoned, run.clock.pending, logs) == (0, [], [])


@pytest.mark.parametrize("stop", STOPS)
async def test_who_stops_a_plain_handler_decides_how_its_attempt_ends(stop: Stop) -> None:
    hanging, one = HangingThread(), claimed()
    run = runs(hanging.run)
    task = run.start(one)
    await asyncio.to_thread(hanging.started.wait)

    run.executor.cancel(one.id, stop)

    assert (await task).outcome == stop.value
    await hanging.end()
    assert run.executor.abandoned == 0


def test_a_thread_that_outlives_the_loop_ends_quietly() -> None:
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


async def test_the_loop_keeps_the_time_if_nobody_else_does() -> None:
    hanging = Hanging()
    executor = Executor(Handlers.of([handler(hanging.run)]), lambda _: NoDatabase())

    attempt = await executor.run(claimed(), SETTINGS._replace(timeout=timedelta(0)))

    assert attempt.outcome is AttemptOutcome.TIMED_OUT
