"""One claimed execution: what its handler receives, and how its attempt ends."""

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
    async_and_plain,
    attempt_of,
    doing_nothing,
    handler,
    raising,
    runs,
)

from tenantcron.actor.context import current_actor, current_correlation_id
from tenantcron.actor.model import Actor, scheduler_actor
from tenantcron.core.targets import HttpTarget
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets import calls
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Cancelled, Fail, Retry

# How a handler ends


@pytest.mark.parametrize("function", async_and_plain(doing_nothing))
async def test_a_handler_that_returns_succeeds(function: HandlerFunction) -> None:
    execution = claimed()

    attempt = await runs(function).executor.run(execution, SETTINGS)

    assert attempt == Attempt(execution, AttemptOutcome.SUCCEEDED)


@pytest.mark.parametrize("function", async_and_plain(raising(ValueError("no such meter"))))
async def test_a_handler_that_raises_fails_with_the_full_error(
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
async def test_no_exception_of_a_handler_stops_the_scheduler(
    error: BaseException, way: int
) -> None:
    attempt = await attempt_of(async_and_plain(raising(error))[way])

    assert attempt.outcome is AttemptOutcome.FAILED
    assert attempt.error is not None
    assert type(error).__name__ in attempt.error


async def test_a_handler_without_a_parameter_fails() -> None:
    async def takes_nothing() -> None: ...

    attempt = await attempt_of(takes_nothing)  # type: ignore[arg-type] # that is the mistake

    assert "TypeError" in str(attempt.error)


@pytest.mark.parametrize("function", async_and_plain(raising(Retry("bank closed", after=90))))
async def test_a_handler_can_request_a_retry_after_a_delay(function: HandlerFunction) -> None:
    attempt = await attempt_of(function)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
    assert attempt.retry_after == timedelta(seconds=90)
    assert str(attempt.error).startswith("bank closed\n")


@pytest.mark.parametrize("function", async_and_plain(raising(Fail("no such customer"))))
async def test_a_handler_can_fail_without_a_retry(function: HandlerFunction) -> None:
    attempt = await attempt_of(function)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert str(attempt.error).startswith("no such customer\n")


async def test_a_plain_handler_that_returns_a_coroutine_fails() -> None:
    async def work(_: Execution) -> None: ...

    attempt = await attempt_of(lambda execution: work(execution))  # noqa: PLW0108 -- plain outside

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert "async def" in str(attempt.error)


async def test_an_attempt_that_cannot_start_a_thread_fails_and_is_retried(
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


# Executions that cannot start


async def test_a_saga_without_a_handler_fails_permanently_with_a_hint() -> None:
    attempt = await runs(doing_nothing).executor.run(claimed("reconsile"), SETTINGS)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    error = str(attempt.error)
    assert error.startswith("no handler is loaded for saga `reconsile`")
    assert "did you mean reconcile?" in error
    assert "--handlers" in error


async def test_an_http_target_without_deliveries_fails_permanently() -> None:
    target = HttpTarget("https://billing.internal/run", "POST", {})

    attempt = await runs(doing_nothing).executor.run(claimed(), SETTINGS, target)

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert attempt.error == "this scheduler serves no targets"


async def test_an_unknown_placeholder_fails_permanently() -> None:
    run = runs(doing_nothing)

    attempt = await run.executor.run(claimed(), with_payload({"x": "{{whatever}}"}))

    assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, True)
    assert "whatever" in str(attempt.error)


# What a handler receives


async def test_a_handler_receives_its_execution() -> None:
    given: list[Execution] = []
    claim = claimed(attempt=2)

    await runs(given.append).executor.run(claim, SETTINGS)

    (execution,) = given
    assert (execution.id, execution.tenant_id) == (claim.id, "acme")
    assert (execution.schedule_name, execution.saga_name) == ("nightly", "reconcile")
    assert (execution.scheduled_for, execution.attempt) == (SCHEDULED_FOR, 2)
    assert execution.deadline == STARTED_AT + timedelta(minutes=5)
    assert (execution.actor, execution.cancelled) == (SCHEDULER, False)


async def test_placeholders_of_the_payload_are_filled() -> None:
    given: list[Execution] = []
    execution = claimed()
    payload = with_payload(
        {"at": "{{fire_time}}", "key": ["{{tenant}}/{{ schedule }}/{{execution_id}}"], "n": 5}
    )

    await runs(given.append).executor.run(execution, payload)

    assert given[0].payload == {
        "at": "2026-11-16T02:00:00+00:00",
        "key": [f"acme/nightly/{execution.id}"],
        "n": 5,
    }


async def test_each_attempt_gets_its_own_copy_of_the_payload() -> None:
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
    """The context that a handler saw."""

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


async def test_contexts_of_concurrent_handlers_never_mix() -> None:
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
    executions = [
        claimed(saga, tenant=f"t{number}", actor=_actor(number))
        for saga, count in (("loop", many), ("thread", 20))
        for number in range(count)
    ]
    attempts = await asyncio.gather(
        *(executor.run(execution, SETTINGS) for execution in executions)
    )

    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.SUCCEEDED}
    for execution in executions:
        assert set_of(found[execution.id]) == [expected(execution)]


def set_of(many: list[Seen]) -> list[Seen]:
    """Return the distinct values."""
    return [value for index, value in enumerate(many) if value not in many[:index]]


def _actor(number: int) -> Actor:
    return scheduler_actor(f"service-{number}")


@pytest.mark.parametrize("function", async_and_plain(doing_nothing))
async def test_the_context_of_the_caller_is_unchanged(function: HandlerFunction) -> None:
    executor = runs(function).executor

    await executor.run(claimed(), SETTINGS)

    assert seen() == Seen(None, None, {})


TRACE: ContextVar[str] = ContextVar("trace", default="none")


@pytest.mark.parametrize("way", [0, 1], ids=["in the loop", "in a thread"])
async def test_a_handler_inherits_the_context_of_its_caller(way: int) -> None:
    found: list[str] = []
    TRACE.set("of the caller")

    await attempt_of(async_and_plain(lambda _: found.append(TRACE.get()))[way])

    assert found == ["of the caller"]
