"""Executions on behalf of an owner: authorisation before the handler starts."""

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from support.attempts import SCHEDULED_FOR, SETTINGS, HandClock, claimed
from support.deciding import MARIA, NEVER, OWNED, UNDECIDED, Deciding, failing, saying
from support.handlers import NoDatabase, async_and_plain, handler, tasks_at_work
from support.patience import PATIENCE

from tenantcron.actor.context import current_actor, current_correlation_id, current_user_id
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.steps.execute import GRACE, Executor
from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Authoriser, Refused
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.python.registry import Handlers


@dataclass(slots=True)
class Calls:
    """Async and plain handlers that record their calls, and an executor for one of them."""

    executions: list[Execution] = field(default_factory=list)

    def executor(
        self,
        authoriser: Authoriser | None,
        way: int = 0,
        within: timedelta = NEVER,
        clock: HandClock | None = None,
    ) -> Executor:
        function: HandlerFunction = async_and_plain(self.executions.append)[way]
        return Executor(
            Handlers.of([handler(function)]),
            lambda _: NoDatabase(),
            authoriser=authoriser,
            longest_check=within,
            call_later=clock,
        )


both_ways = pytest.mark.parametrize("way", [0, 1], ids=["in the loop", "in a thread"])


class TestDecisions:
    @both_ways
    async def test_an_allowed_handler_runs(self, way: int) -> None:
        calls, decides, execution = Calls(), saying(Allowed()), claimed()
        attempt = await calls.executor(decides, way).run(execution, OWNED)
        assert attempt == Attempt(execution, AttemptOutcome.SUCCEEDED)
        assert [execution.owner for execution in calls.executions] == [MARIA]
        (asked,) = decides.asked
        assert asked == AuthorisationRequest(
            tenant_id=execution.tenant_id,
            schedule_name=asked.schedule_name,
            saga_name=asked.saga_name,
            owner=MARIA,
            execution_id=execution.id,
            scheduled_for=SCHEDULED_FOR,
        )
        assert (asked.schedule_name, asked.saga_name) == ("nightly", "reconcile")

    @both_ways
    async def test_a_refused_handler_is_not_called(self, way: int) -> None:
        calls, execution = Calls(), claimed()
        executor = calls.executor(saying(Refused("has left\n the company")), way)
        attempt = await executor.run(execution, OWNED)
        reason = "owner user:maria may not: has left the company"
        assert attempt == Attempt(execution, AttemptOutcome.REFUSED, reason)
        assert (calls.executions, executor.running, executor.abandoned) == ([], (), 0)

    async def test_a_refusal_without_a_reason_says_so(self) -> None:
        attempt = await Calls().executor(saying(Refused(" "))).run(claimed(), OWNED)
        assert attempt.error == "owner user:maria may not: no reason was given"

    async def test_any_reason_fits_into_the_history(self) -> None:
        refused = saying(Refused("\0\ud800" + "x" * 10_000))
        attempt = await Calls().executor(refused).run(claimed(), OWNED)
        assert attempt.error is not None
        assert "\0" not in attempt.error
        assert len(attempt.error.encode()) < 500

    async def test_executions_without_an_owner_are_not_authorised(self) -> None:
        calls, decides = Calls(), saying(Refused())
        attempt = await calls.executor(decides).run(claimed(), SETTINGS)
        assert attempt.succeeded
        assert decides.asked == []
        assert [execution.owner for execution in calls.executions] == [None]

    async def test_without_an_authoriser_everything_is_allowed(self) -> None:
        calls = Calls()
        assert (await calls.executor(None).run(claimed(), OWNED)).succeeded
        assert [execution.owner for execution in calls.executions] == [MARIA]

    async def test_each_attempt_is_authorised(self) -> None:
        calls, decides, first = Calls(), saying(Allowed()), claimed()
        executor = calls.executor(decides)
        await executor.run(first, OWNED)
        await executor.run(claimed(attempt=2, execution_id=first.id), OWNED)
        assert [asked.execution_id for asked in decides.asked] == [first.id] * 2


class TestNoDecision:
    """Authorisation fails closed: nothing starts, and the next attempt checks again."""

    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            (True, "True"),
            (None, "None"),
            ("allowed", "'allowed'"),
            ({"allowed": True}, "{'allowed': True}"),
            (Allowed, "Allowed"),
            (Refused(5), "Refused"),  # type: ignore[arg-type] # no reason at all
        ],
    )
    async def test_an_unexpected_decision_is_not_an_approval(
        self, answer: object, shown: str
    ) -> None:
        calls = Calls()
        attempt = await calls.executor(saying(answer)).run(claimed(), OWNED)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        assert str(attempt.error).startswith(f"{UNDECIDED}the authoriser returned ")
        assert shown in str(attempt.error)
        assert calls.executions == []

    @both_ways
    @pytest.mark.parametrize(
        "error",
        [ValueError("no such user"), TimeoutError("internal"), SystemExit(1)],
        ids=lambda error: type(error).__name__,
    )
    async def test_an_error_of_the_authoriser_is_recorded_in_full(
        self, error: BaseException, way: int
    ) -> None:
        calls = Calls()
        attempt = await calls.executor(failing(error), way).run(claimed(), OWNED)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        head, _, rest = str(attempt.error).partition("\n")
        assert head == f"{UNDECIDED}{type(error).__name__}: {error}"
        assert "raise error" in rest
        assert calls.executions == []

    async def test_an_unrequested_cancellation_counts_as_an_error(self) -> None:
        calls = Calls()
        attempt = await calls.executor(failing(asyncio.CancelledError())).run(claimed(), OWNED)
        assert (attempt.outcome, calls.executions) == (AttemptOutcome.FAILED, [])

    @pytest.mark.parametrize("swallows", [False, True], ids=["it stops", "it returns a decision"])
    async def test_a_late_decision_does_not_count(self, swallows: bool) -> None:
        async def decide(_: AuthorisationRequest) -> object:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise
            return Allowed()

        calls, within = Calls(), timedelta(milliseconds=20)
        attempt = await calls.executor(Deciding(decide), within=within).run(claimed(), OWNED)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        assert attempt.error == f"{UNDECIDED}no decision within 0.02 s"
        assert calls.executions == []


class TestStops:
    @both_ways
    @pytest.mark.parametrize("swallows", [False, True], ids=["it stops", "it returns a decision"])
    async def test_an_attempt_stopped_during_authorisation_never_starts(
        self, way: int, swallows: bool
    ) -> None:
        begun = asyncio.Event()

        async def decide(_: AuthorisationRequest) -> object:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise
            return Allowed()

        calls, execution = Calls(), claimed()
        executor = calls.executor(Deciding(decide), way, clock=HandClock())
        run = asyncio.create_task(executor.run(execution, OWNED))
        await begun.wait()
        assert executor.cancel(execution.id, Stop.CANCELLED, "by maria")
        attempt = await run
        assert (attempt.outcome, str(attempt.error).splitlines()[0]) == (
            AttemptOutcome.CANCELLED,
            "by maria",
        )
        assert (calls.executions, executor.running) == ([], ())

    async def test_the_timeout_of_the_attempt_applies_during_authorisation(
        self,
    ) -> None:
        begun, asked, ends = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def decide(_: AuthorisationRequest) -> object:
            begun.set()
            while not ends.is_set():
                try:
                    await ends.wait()
                except asyncio.CancelledError:
                    asked.set()
            return Allowed()

        calls, clock = Calls(), HandClock()
        executor = calls.executor(Deciding(decide), 1, clock=clock)
        run = asyncio.create_task(executor.run(claimed(), OWNED))
        await begun.wait()
        for seconds in (OWNED.timeout.total_seconds(), GRACE.total_seconds()):
            (timer,) = clock.pending
            assert timer.seconds == seconds
            timer.cancelled = True
            timer.callback()
            await asked.wait()
        attempt = await run
        assert (attempt.outcome, executor.abandoned) == (AttemptOutcome.TIMED_OUT, 1)
        ends.set()
        await asyncio.gather(*tasks_at_work())
        assert (executor.abandoned, calls.executions) == (0, [])

    async def test_an_allowed_plain_handler_runs_in_its_thread_and_can_be_stopped(
        self,
    ) -> None:
        started, seen, threads = asyncio.Event(), list[bool](), list[threading.Thread]()
        loop, ends = asyncio.get_running_loop(), threading.Event()

        def plain(execution: Execution) -> None:
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(started.set)
            ends.wait(PATIENCE)
            seen.append(execution.cancelled)

        handlers, execution = Handlers.of([handler(plain)]), claimed()
        executor = Executor(handlers, lambda _: NoDatabase(), authoriser=saying(Allowed()))
        run = asyncio.create_task(executor.run(execution, OWNED))
        await started.wait()
        assert executor.cancel(execution.id, Stop.CANCELLED, "enough")
        assert (await run).outcome is AttemptOutcome.CANCELLED
        ends.set()
        await asyncio.to_thread(threads[0].join)
        assert (executor.abandoned, seen) == (0, [True])


LEAKED: ContextVar[str] = ContextVar("leaked", default="")


class TestContext:
    @both_ways
    async def test_the_owner_is_the_user_and_the_scheduler_stays_the_actor(self, way: int) -> None:
        seen: list[tuple[object, ...]] = []

        def look() -> None:
            seen.append(
                (current_actor(), current_user_id(), current_correlation_id(), LEAKED.get())
            )

        async def decide(_: AuthorisationRequest) -> object:
            look()
            LEAKED.set("by the authoriser")
            return Allowed()

        function = async_and_plain(lambda _: look())[way]
        execution = claimed()
        executor = Executor(
            Handlers.of([handler(function)]), lambda _: NoDatabase(), authoriser=Deciding(decide)
        )
        assert (await executor.run(execution, OWNED)).succeeded
        assert seen == [(execution.actor, "user:maria", execution.id, "")] * 2
        assert current_user_id() is None

    async def test_without_an_owner_there_is_no_user(self) -> None:
        seen: list[str | None] = []
        function = async_and_plain(lambda _: seen.append(current_user_id()))[0]
        executor = Executor(Handlers.of([handler(function)]), lambda _: NoDatabase())
        await executor.run(claimed(), SETTINGS)
        assert seen == [None]
