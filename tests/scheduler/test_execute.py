"""One claimed execution: what its handler is given, and how its attempt ends by itself."""

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
import structlog
from support.attempts import (
    SCHEDULED_FOR,
    SCHEDULER,
    SETTINGS,
    STARTED_AT,
    claimed,
    with_payload,
)
from support.handlers import (
    NoDatabase,
    attempt_of,
    doing_nothing,
    handler,
    in_both_ways,
    raising,
    runs,
)

from tenantcron.actor.context import current_actor, current_correlation_id
from tenantcron.actor.model import Actor, scheduler_actor
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.schedules.targets import HttpTarget
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets import calls
from tenantcron.targets.execution import Execution
from tenantcron.targets.registry import HandlerFunction, Handlers
from tenantcron.targets.signals import Cancelled, Fail, Retry

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

    attempt = await attempt_of(takes_nothing)  # type: ignore[arg-type] # that is the mistake

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
    assert said.startswith("no handler is loaded for saga `reconsile`")
    assert "did you mean reconcile?" in said
    assert "--handlers" in said


async def test_an_http_target_fails_for_good_also_where_a_handler_has_the_name() -> None:
    target = HttpTarget("https://billing.internal/run", "POST", {})

    attempt = await runs(doing_nothing).executor.run(claimed(), SETTINGS, target)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert attempt.error == "this scheduler calls no HTTP targets"


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
