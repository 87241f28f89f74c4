"""Executions on behalf of an owner: who is told, who decides, and what becomes of each answer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from support.attempts import SCHEDULED_FOR, SETTINGS, HandClock, claimed
from support.handlers import NoDatabase, doing_nothing, handler, in_both_ways, tasks_at_work
from support.manifests import policy_with
from support.scheduling import Row, Scheduling
from support.services import Service, answering, service

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.context import current_actor, current_correlation_id, current_user_id
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import Owner
from tenantcron.core.values import JsonValue
from tenantcron.scheduler.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.deliver import Deliveries, begun_in
from tenantcron.scheduler.execute import GRACE, Executor
from tenantcron.scheduler.operate import Operator
from tenantcron.scheduler.situation import read_situation, schedule_ref
from tenantcron.scheduler.why import explain
from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Authoriser, Refused
from tenantcron.targets.execution import Execution
from tenantcron.targets.http import Caller
from tenantcron.targets.owner_check import OwnerCheck
from tenantcron.targets.registry import HandlerFunction, Handlers

MARIA = Owner("user:maria")
OWNED = SETTINGS._replace(owner=MARIA)
NEVER = timedelta(hours=1)
UNDECIDED = "whether owner user:maria may do this could not be checked: "
Decide = Callable[[AuthorisationRequest], Awaitable[object]]


@dataclass(slots=True)
class Deciding:
    """An authoriser that answers what the test wants, and remembers the questions."""

    decide: Decide
    asked: list[AuthorisationRequest] = field(default_factory=list)

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        self.asked.append(request)
        return await self.decide(request)  # type: ignore[return-value] # also what is no answer


def saying(answer: object) -> Deciding:
    async def decide(_: AuthorisationRequest) -> object:
        return answer

    return Deciding(decide)


def failing(error: BaseException) -> Deciding:
    async def decide(_: AuthorisationRequest) -> object:
        raise error

    return Deciding(decide)


@dataclass(slots=True)
class Calls:
    """Handlers of both kinds that tell when they were called, and an executor for one of them."""

    executions: list[Execution] = field(default_factory=list)

    def executor(
        self,
        authoriser: Authoriser | None,
        way: int = 0,
        within: timedelta = NEVER,
        clock: HandClock | None = None,
    ) -> Executor:
        function: HandlerFunction = in_both_ways(self.executions.append)[way]
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
    async def test_after_a_yes_the_handler_runs(self, way: int) -> None:
        calls, decides, one = Calls(), saying(Allowed()), claimed()
        attempt = await calls.executor(decides, way).run(one, OWNED)
        assert attempt == Attempt(one, AttemptOutcome.SUCCEEDED)
        assert [execution.owner for execution in calls.executions] == [MARIA]
        (asked,) = decides.asked
        assert asked == AuthorisationRequest(
            tenant_id=one.tenant_id,
            schedule_name=asked.schedule_name,
            saga_name=asked.saga_name,
            owner=MARIA,
            execution_id=one.id,
            scheduled_for=SCHEDULED_FOR,
        )
        assert (asked.schedule_name, asked.saga_name) == ("nightly", "reconcile")

    @both_ways
    async def test_after_a_no_nothing_is_called(self, way: int) -> None:
        calls, one = Calls(), claimed()
        executor = calls.executor(saying(Refused("has left\n the company")), way)
        attempt = await executor.run(one, OWNED)
        reason = "owner user:maria may not: has left the company"
        assert attempt == Attempt(one, AttemptOutcome.REFUSED, reason)
        assert (calls.executions, executor.running, executor.abandoned) == ([], (), 0)

    async def test_a_no_without_a_reason_says_so(self) -> None:
        attempt = await Calls().executor(saying(Refused(" "))).run(claimed(), OWNED)
        assert attempt.error == "owner user:maria may not: no reason was given"

    async def test_a_reason_fits_into_the_history_whatever_it_is(self) -> None:
        refused = saying(Refused("\0\ud800" + "x" * 10_000))
        attempt = await Calls().executor(refused).run(claimed(), OWNED)
        assert attempt.error is not None
        assert "\0" not in attempt.error
        assert len(attempt.error.encode()) < 500

    async def test_nobody_is_asked_about_executions_without_an_owner(self) -> None:
        calls, decides = Calls(), saying(Refused())
        attempt = await calls.executor(decides).run(claimed(), SETTINGS)
        assert attempt.succeeded
        assert decides.asked == []
        assert [execution.owner for execution in calls.executions] == [None]

    async def test_where_nobody_decides_everything_is_allowed(self) -> None:
        calls = Calls()
        assert (await calls.executor(None).run(claimed(), OWNED)).succeeded
        assert [execution.owner for execution in calls.executions] == [MARIA]

    async def test_each_attempt_is_asked_about(self) -> None:
        calls, decides, first = Calls(), saying(Allowed()), claimed()
        executor = calls.executor(decides)
        await executor.run(first, OWNED)
        await executor.run(claimed(attempt=2, execution_id=first.id), OWNED)
        assert [asked.execution_id for asked in decides.asked] == [first.id] * 2


class TestNoDecision:
    """It fails closed: nothing starts, and the next attempt asks again."""

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
    async def test_what_merely_looks_like_a_yes_is_none(self, answer: object, shown: str) -> None:
        calls = Calls()
        attempt = await calls.executor(saying(answer)).run(claimed(), OWNED)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        assert str(attempt.error).startswith(f"{UNDECIDED}the authoriser answered ")
        assert shown in str(attempt.error)
        assert calls.executions == []

    @both_ways
    @pytest.mark.parametrize(
        "error",
        [ValueError("no such user"), TimeoutError("of its own"), SystemExit(1)],
        ids=lambda error: type(error).__name__,
    )
    async def test_an_error_is_recorded_in_full(self, error: BaseException, way: int) -> None:
        calls = Calls()
        attempt = await calls.executor(failing(error), way).run(claimed(), OWNED)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        head, _, rest = str(attempt.error).partition("\n")
        assert head == f"{UNDECIDED}{type(error).__name__}: {error}"
        assert "raise error" in rest
        assert calls.executions == []

    async def test_a_cancellation_that_nobody_asked_for_is_one_too(self) -> None:
        calls = Calls()
        attempt = await calls.executor(failing(asyncio.CancelledError())).run(claimed(), OWNED)
        assert (attempt.outcome, calls.executions) == (AttemptOutcome.FAILED, [])

    @pytest.mark.parametrize(
        "swallows", [False, True], ids=["it stops", "it says yes all the same"]
    )
    async def test_an_answer_that_comes_too_late_is_none(self, swallows: bool) -> None:
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
    @pytest.mark.parametrize(
        "swallows", [False, True], ids=["it stops", "it says yes all the same"]
    )
    async def test_who_is_stopped_while_it_asks_never_starts(
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

        calls, one = Calls(), claimed()
        executor = calls.executor(Deciding(decide), way, clock=HandClock())
        run = asyncio.create_task(executor.run(one, OWNED))
        await begun.wait()
        assert executor.cancel(one.id, Stop.CANCELLED, "by maria")
        attempt = await run
        assert (attempt.outcome, str(attempt.error).splitlines()[0]) == (
            AttemptOutcome.CANCELLED,
            "by maria",
        )
        assert (calls.executions, executor.running) == ([], ())

    async def test_the_time_of_the_attempt_holds_while_it_asks_whatever_the_authoriser_does(
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

    async def test_a_plain_handler_runs_in_its_thread_and_can_be_stopped_after_the_yes(
        self,
    ) -> None:
        started, seen, threads = asyncio.Event(), list[bool](), list[threading.Thread]()
        loop, ends = asyncio.get_running_loop(), threading.Event()

        def plain(execution: Execution) -> None:
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(started.set)
            ends.wait(10)
            seen.append(execution.cancelled)

        handlers, one = Handlers.of([handler(plain)]), claimed()
        executor = Executor(handlers, lambda _: NoDatabase(), authoriser=saying(Allowed()))
        run = asyncio.create_task(executor.run(one, OWNED))
        await started.wait()
        assert executor.cancel(one.id, Stop.CANCELLED, "enough")
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

        function = in_both_ways(lambda _: look())[way]
        one = claimed()
        executor = Executor(
            Handlers.of([handler(function)]), lambda _: NoDatabase(), authoriser=Deciding(decide)
        )
        assert (await executor.run(one, OWNED)).succeeded
        assert seen == [(one.actor, "user:maria", one.id, "")] * 2
        assert current_user_id() is None

    async def test_without_an_owner_there_is_no_user(self) -> None:
        seen: list[str | None] = []
        function = in_both_ways(lambda _: seen.append(current_user_id()))[0]
        executor = Executor(Handlers.of([handler(function)]), lambda _: NoDatabase())
        await executor.run(claimed(), SETTINGS)
        assert seen == [None]


class Steps:
    """Takes the steps of a replica on a real database."""

    def __init__(self, scheduling: Scheduling, executor: Executor) -> None:
        self.scheduling, self.executor = scheduling, executor
        self.replica = scheduling.replica()

    async def work(self) -> list[Row]:
        """Fire, claim, ask, run and finish once; return the executions."""
        return await self.scheduling.work(self.replica, self.executor)


def nightly(authoriser: Authoriser) -> Executor:
    handlers = Handlers.of([handler(in_both_ways(doing_nothing)[0], "nightly")])
    return Executor(handlers, lambda _: NoDatabase(), authoriser=authoriser)


class TestRecords:
    async def test_a_refused_execution_is_skipped_with_the_reason_and_one_honest_attempt(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        due = scheduling.clock.go_on(hours=1)
        with capture_logs() as logs:
            (row,) = await Steps(scheduling, nightly(saying(Refused("has left")))).work()

        reason = "owner user:maria may not: has left"
        assert (row["state"], row["reason"], row["attempt"]) == ("SKIPPED", reason, 1)
        assert (row["finished_at"], row["lease_token"], row["lease_until"]) == (due, None, None)
        # Maria has done nothing: neither is she the actor, nor anybody else than the scheduler.
        assert (row["actor_id"], row["actor_source"]) == (
            "system:scheduler:scheduler",
            "cron-scheduler",
        )
        (attempt,) = await scheduling.rows("execution_attempt", "attempt")
        assert (attempt["attempt"], attempt["outcome"], attempt["error"]) == (1, "REFUSED", reason)
        (line,) = [line for line in logs if line["event"] == "execution_skipped"]
        assert (line["reason"], line["schedule"], line["attempt"]) == (reason, "nightly", 1)
        assert await Steps(scheduling, nightly(saying(Allowed()))).work() == [row]

    async def test_refusals_neither_pause_a_schedule_nor_begin_its_count_anew(
        self, scheduling: Scheduling
    ) -> None:
        schedule_id = await scheduling.schedule(owner="user:maria", auto_pause_after=3)
        await scheduling.set_cursor(schedule_id, consecutive_failures=2)
        steps = Steps(scheduling, nightly(saying(Refused("no"))))
        for _ in range(5):
            scheduling.clock.go_on(hours=1)
            rows = await steps.work()
        assert [row["state"] for row in rows] == ["SKIPPED"] * 5
        cursor = await scheduling.cursor(schedule_id)
        assert (cursor["consecutive_failures"], cursor["paused_at"]) == (2, None)

    async def test_no_decision_is_tried_again_and_then_dead(self, scheduling: Scheduling) -> None:
        once: JsonValue = {"max_attempts": 2, "backoff": "1s", "max_backoff": "1s"}
        schedule_id = await scheduling.schedule(owner="user:maria", retry=once)
        steps = Steps(scheduling, nightly(failing(OSError("the directory is away"))))
        scheduling.clock.go_on(hours=1)
        (row,) = await steps.work()
        reason = f"{UNDECIDED}OSError: the directory is away"
        assert (row["state"], row["reason"], row["attempt"]) == ("FAILED", reason, 1)
        scheduling.clock.go_on(seconds=2)
        (row,) = await steps.work()
        assert (row["state"], row["reason"], row["attempt"]) == ("DEAD", reason, 2)
        assert (await scheduling.cursor(schedule_id))["consecutive_failures"] == 1
        outcomes = [one["outcome"] for one in await scheduling.rows("execution_attempt", "attempt")]
        assert outcomes == ["FAILED", "FAILED"]

    async def test_what_could_not_be_decided_runs_when_the_next_attempt_gets_a_yes(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.go_on(hours=1)
        await Steps(scheduling, nightly(failing(OSError()))).work()
        scheduling.clock.go_on(seconds=2)
        (row,) = await Steps(scheduling, nightly(saying(Allowed()))).work()
        assert (row["state"], row["attempt"]) == ("SUCCEEDED", 2)

    async def test_a_refused_one_can_be_retried_by_hand_and_is_asked_about_again(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.go_on(hours=1)
        (row,) = await Steps(scheduling, nightly(saying(Refused("not yet")))).work()
        ada = Attribution(Actor("ada", ActorType.HUMAN, "cli"))
        operator = Operator(scheduling.database, scheduling.settings, ada, scheduling.clock)
        await operator.retry(str(row["id"]))
        decides = saying(Allowed())
        (row,) = await Steps(scheduling, nightly(decides)).work()
        assert (row["state"], row["attempt"], len(decides.asked)) == ("SUCCEEDED", 2, 1)

    async def test_why_tells_that_the_owner_was_refused(self, scheduling: Scheduling) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.go_on(hours=1)
        await Steps(scheduling, nightly(saying(Refused("has left")))).work()
        async with scheduling.database.transaction() as connection:
            ref, lease = schedule_ref("acme/nightly"), timedelta(minutes=1)
            situation = await read_situation(connection, ref, lease, scheduling.clock())
        (reason,) = [one for one in explain(situation) if one.code == "last-skipped"]
        assert "owner user:maria may not: has left" in reason.message
        assert "another `owner` in the manifest" in reason.hint

    async def test_nothing_is_open_in_the_database_while_it_asks(
        self, scheduling: Scheduling
    ) -> None:
        found: list[Row] = []

        async def decide(_: AuthorisationRequest) -> object:
            found.extend(
                await scheduling.query(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                    " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )
            )
            return Allowed()

        await scheduling.schedule(owner="user:maria")
        scheduling.clock.go_on(hours=1)
        (row,) = await Steps(scheduling, nightly(Deciding(decide))).work()
        assert (row["state"], found) == ("SUCCEEDED", [])


class TestTargets:
    """HTTP on both sides: a policy service decides, another one does the work."""

    @pytest.fixture
    async def target(self) -> AsyncIterator[Service]:
        async with service() as running:
            yield running

    @pytest.fixture
    async def decider(self) -> AsyncIterator[Service]:
        async with service(answering(200, b'{"allowed": true}')) as running:
            yield running

    @pytest.fixture
    async def steps(
        self, scheduling: Scheduling, target: Service, decider: Service
    ) -> AsyncIterator[Steps]:
        policy = policy_with(
            hosts=("http://127.0.0.1",),
            networks=("127.0.0.0/8",),
            ports=(target.port, decider.port),
        )
        caller = Caller(policy.egress)
        begun = begun_in(scheduling.database, scheduling.clock)
        executor = Executor(
            Handlers.of([]),
            lambda _: NoDatabase(),
            deliveries=Deliveries(caller, policy, begun),
            authoriser=OwnerCheck(caller, f"{decider.url}/may"),
        )
        http: JsonValue = {"url": target.url, "method": "POST", "headers": {}, "auth": "none"}
        await scheduling.schedule(owner="user:maria", target={"http": http})
        scheduling.clock.go_on(hours=1)
        yield Steps(scheduling, executor)
        await caller.close()

    async def test_after_a_yes_the_target_is_told_on_whose_behalf_it_is_called(
        self, steps: Steps, target: Service, decider: Service
    ) -> None:
        (row,) = await steps.work()
        assert row["state"] == "SUCCEEDED"
        assert target.only.headers["x-tenantcron-owner"] == "user:maria"
        assert b'"owner":"user:maria"' in target.only.body
        assert str(row["id"]).encode() in decider.only.body

    async def test_after_a_no_the_target_is_not_called(
        self, steps: Steps, scheduling: Scheduling, target: Service, decider: Service
    ) -> None:
        decider.behaviour = answering(200, b'{"allowed": false, "reason": "has left"}')
        (row,) = await steps.work()
        assert (row["state"], row["reason"]) == ("SKIPPED", "owner user:maria may not: has left")
        assert target.connections == 0
        (attempt,) = await scheduling.rows("execution_attempt", "attempt")
        # What the policy service says is not an answer of the target.
        assert (attempt["http_status"], attempt["answer"]) == (None, None)

    async def test_while_it_cannot_be_asked_the_target_is_not_called(
        self, steps: Steps, target: Service, decider: Service
    ) -> None:
        decider.behaviour = answering(503)
        (row,) = await steps.work()
        assert (row["state"], target.connections) == ("FAILED", 0)
        assert row["reason"] == f"{UNDECIDED}the policy service answered 503"
