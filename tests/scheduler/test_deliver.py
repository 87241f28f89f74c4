"""HTTP targets in the scheduler: keys, attempts, stops and recorded responses."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs
from support.attempts import SETTINGS, HandClock, claimed
from support.calls import FixedTokens
from support.manifests import policy_with
from support.patience import PATIENCE
from support.scheduling import NOON, Row, Scheduling
from support.services import Service, answering, forever, service

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.auth import TokenAuth
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.targets import HttpTarget
from tenantcron.core.values import JsonValue
from tenantcron.manifests.policy import Policy, default_policy
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.steps.deliver import Deliveries, begun_in, idempotency_key
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.idempotency_retention import DEFAULT_RETENTION, Retention
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import AsyncTransaction, Transaction
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.runner import HttpRunner
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.responses import ServiceResponse

NIGHTLY = ScheduleRef("acme", "nightly")  # type: ignore[arg-type] # a test's own id
MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"))
OFTEN: JsonValue = {"max_attempts": 5, "backoff": "1s", "max_backoff": "1s"}


class NoDatabase:
    """No transactions, because calls need none."""

    def begin(self) -> AsyncTransaction:
        raise AssertionError

    def begin_plain(self) -> Transaction:
        raise AssertionError


def policy_for(target: Service, keeps: timedelta = timedelta(hours=24)) -> Policy:
    return policy_with(
        hosts=("http://127.0.0.1",),
        networks=("127.0.0.0/8",),
        ports=(target.port,),
        retention=keeps,
    )


async def just_begun(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


class Calls:
    """An executor of calls, with a fake clock or the real one."""

    def __init__(self, target: Service, clock: HandClock | None = None) -> None:
        self.caller = HttpClient(policy_for(target).egress)
        deliveries = Deliveries({"http": HttpRunner(self.caller)}, policy_for(target), just_begun)
        self.executor = Executor(
            Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries, call_later=clock
        )
        self.target = HttpTarget(f"{target.url}/run", "POST", {})

    def start(
        self, of: Claimed | None = None, settings: ScheduleSettings = SETTINGS
    ) -> asyncio.Task[Attempt]:
        return asyncio.create_task(self.executor.run(of or claimed(), settings, self.target))


@pytest.fixture
async def target() -> AsyncIterator[Service]:
    """A service that answers 200."""
    async with service() as running:
        yield running


class TestAttempts:
    async def test_an_answered_call_succeeds_with_its_response(self, target: Service) -> None:
        target.behaviour = answering(201, b"made")
        calls, execution = Calls(target), claimed()
        attempt = await calls.start(execution)
        await calls.caller.close()
        assert attempt == Attempt(
            execution, AttemptOutcome.SUCCEEDED, answer=ServiceResponse(201, "made")
        )
        assert calls.executor.running == ()

    async def test_a_transient_status_fails_with_a_one_line_error(self, target: Service) -> None:
        target.behaviour = answering(503, b"busy", Retry_After="7")
        calls = Calls(target)
        attempt = await calls.start()
        await calls.caller.close()
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        assert attempt.error == "the service answered 503 Service Unavailable"
        assert attempt.retry_after == timedelta(seconds=7)
        assert attempt.answer == ServiceResponse(503, "busy")

    async def test_a_permanent_status_is_final(self, target: Service) -> None:
        target.behaviour = answering(404)
        calls = Calls(target)
        attempt = await calls.start()
        await calls.caller.close()
        assert (attempt.final, attempt.error) == (True, "the service answered 404 Not Found")

    async def test_a_timeout_closes_the_connection(self, target: Service) -> None:
        target.behaviour = forever
        clock = HandClock()
        calls = Calls(target, clock)
        run = calls.start()
        await target.arrived.wait()
        (timer,) = clock.pending
        assert timer.seconds == SETTINGS.timeout.total_seconds()
        timer.go_off()
        attempt = await run
        assert attempt.outcome is AttemptOutcome.TIMED_OUT
        assert attempt.error == "timed out after 5m"
        await asyncio.wait_for(target.hung_up.wait(), PATIENCE)
        assert calls.executor.abandoned == 0
        await calls.caller.close()

    async def test_the_timeout_includes_name_resolution(self, target: Service) -> None:
        async def hangs(_: str) -> list[str]:
            await asyncio.Event().wait()
            raise AssertionError

        policy = policy_with(hosts=("http://billing.test",), ports=(target.port,))
        caller = HttpClient(policy.egress, resolve=hangs)
        executor = Executor(
            Handlers.of([]),
            lambda _: NoDatabase(),
            deliveries=Deliveries({"http": HttpRunner(caller)}, policy, just_begun),
        )
        url = f"http://billing.test:{target.port}/"
        settings = SETTINGS._replace(timeout=timedelta(seconds=0.2))
        attempt = await asyncio.wait_for(
            executor.run(claimed(), settings, HttpTarget(url, "POST", {})), PATIENCE
        )
        assert attempt.outcome in (AttemptOutcome.TIMED_OUT, AttemptOutcome.FAILED)
        assert not attempt.final
        await caller.close()

    @pytest.mark.parametrize("stop", [Stop.CANCELLED, Stop.INTERRUPTED, Stop.LOST])
    async def test_stopping_a_call_closes_the_connection(self, target: Service, stop: Stop) -> None:
        target.behaviour = forever
        calls, execution = Calls(target, HandClock()), claimed()
        run = calls.start(execution)
        await target.arrived.wait()
        assert calls.executor.cancel(execution.id, stop, "because")
        attempt = await run
        assert (attempt.outcome, attempt.error) == (AttemptOutcome(stop.value), "because")
        await asyncio.wait_for(target.hung_up.wait(), PATIENCE)
        await calls.caller.close()

    async def test_by_default_no_destination_is_allowed(self, target: Service) -> None:
        policy = default_policy()
        deliveries = Deliveries({"http": HttpRunner(HttpClient(policy.egress))}, policy, just_begun)
        executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
        target_of = HttpTarget(target.url, "POST", {})
        attempt = await executor.run(claimed(), SETTINGS, target_of)
        assert attempt.final
        assert 'add "http://127.0.0.1" to allowed_hosts' in str(attempt.error)
        assert target.connections == 0

    async def test_a_target_gets_tokens_only_for_audiences_of_the_policy(
        self, target: Service
    ) -> None:
        policy = policy_for(target)._replace(allowed_audiences=("billing",))
        caller, tokens = HttpClient(policy.egress), FixedTokens()
        deliveries = Deliveries({"http": HttpRunner(caller)}, policy, just_begun, lambda *_: tokens)
        executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
        ends = [
            await executor.run(
                claimed(), SETTINGS, HttpTarget(target.url, "POST", {}, TokenAuth(audience))
            )
            for audience in ("payroll", "billing")
        ]
        await caller.close()
        assert [(end.outcome, end.final) for end in ends] == [
            (AttemptOutcome.FAILED, True),
            (AttemptOutcome.SUCCEEDED, False),
        ]
        assert tokens.audiences == ["billing"]
        assert len(target.received) == 1


class Deliverer:
    """Runs the steps of a replica, with calls of a real service."""

    def __init__(
        self, scheduling: Scheduling, target: Service, keeps: timedelta = DEFAULT_RETENTION
    ) -> None:
        self.scheduling = scheduling
        policy = policy_for(target, keeps)
        self.caller = HttpClient(policy.egress)
        self.replica: Replica = replace(scheduling.replica(), retention=Retention(keeps))
        begun = begun_in(scheduling.database, scheduling.clock)
        self.executor = Executor(
            Handlers.of([]),
            lambda _: NoDatabase(),
            deliveries=Deliveries({"http": HttpRunner(self.caller)}, policy, begun),
        )
        self.definition: JsonValue = {
            "http": {
                "url": f"{target.url}/run",
                "method": "POST",
                "headers": {},
                "auth": "none",
            }
        }

    async def schedule(self, **definition: JsonValue) -> UUID:
        document: dict[str, Any] = {"target": self.definition, "retry": OFTEN, **definition}
        return await self.scheduling.schedule(**document)

    async def work(self) -> list[Row]:
        """Fire, claim, call and finish once; return the executions."""
        return await self.scheduling.work(self.replica, self.executor)


@pytest.fixture
async def deliverer(scheduling: Scheduling, target: Service) -> AsyncIterator[Deliverer]:
    """A replica that calls the service."""
    made = Deliverer(scheduling, target)
    yield made
    await made.caller.close()


class TestExecutions:
    async def test_attempts_of_an_occurrence_send_the_same_request_and_store_the_responses(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        schedule = await deliverer.schedule(payload={"as_of": "{{fire_time}}", "a": [1, 2.5]})
        due = scheduling.clock.advance(hours=1)
        target.behaviour = answering(500, b"no")
        await deliverer.work()
        scheduling.clock.advance(seconds=2)
        target.behaviour = answering(200, b"yes")
        (row,) = await deliverer.work()

        assert (row["state"], row["attempt"]) == ("SUCCEEDED", 2)
        first, second = target.received
        key = f"sched:{schedule}:{int(due.timestamp()) * 1000}"
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == key
        assert first.body == second.body
        assert b'"as_of":"2026-12-01T13:00:00+00:00"' in first.body
        attempts = await scheduling.rows("execution_attempt", "attempt")
        assert [
            (attempt["http_status"], attempt["answer"], attempt["error"]) for attempt in attempts
        ] == [
            (500, "no", "the service answered 500 Internal Server Error"),
            (200, "yes", None),
        ]

    async def test_each_occurrence_has_a_unique_key(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule()
        for _ in range(3):
            scheduling.clock.advance(hours=1)
            await deliverer.work()
        assert len({request.headers["idempotency-key"] for request in target.received}) == 3

    async def test_manual_triggers_in_the_same_millisecond_have_different_keys(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule(overlap="allow")
        scheduling.clock.advance(hours=1)
        operator = Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)
        await operator.trigger(NIGHTLY, None)
        await operator.trigger(NIGHTLY, None)
        rows = await deliverer.work()
        assert {row["scheduled_for"] for row in rows} == {NOON + timedelta(hours=1)}
        keys = {request.headers["idempotency-key"] for request in target.received}
        assert (len(rows), len(keys)) == (3, 3)

    async def test_retry_after_sets_the_delay_of_the_next_attempt(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule()
        now = scheduling.clock.advance(hours=1)
        target.behaviour = answering(409, Retry_After="90")
        (row,) = await deliverer.work()
        assert (row["state"], row["not_before"]) == ("RETRYING", now + timedelta(seconds=90))

    async def test_a_manual_retry_has_the_same_key(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(400)
        (row,) = await deliverer.work()
        assert row["state"] == "DEAD"
        scheduling.clock.advance(minutes=1)
        operator = Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)
        await operator.retry(str(row["id"]))
        await deliverer.work()
        assert len({request.headers["idempotency-key"] for request in target.received}) == 1
        assert len(target.received) == 2


class TestRetention:
    async def test_the_default_equals_that_of_the_policy(self) -> None:
        assert default_policy().idempotency_retention == DEFAULT_RETENTION

    async def test_a_retry_that_would_come_after_the_key_is_forgotten_ends_the_execution(
        self, scheduling: Scheduling, target: Service
    ) -> None:
        deliverer = Deliverer(scheduling, target, keeps=timedelta(minutes=60))
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(503, Retry_After="3600")
        (row,) = await deliverer.work()
        assert row["state"] == "DEAD"
        assert row["reason"] == (
            "another attempt would come when the target may have forgotten the idempotency key, "
            "which it remembers for 1h (the attempt before it: the service answered 503 Service "
            "Unavailable)"
        )
        await deliverer.caller.close()

    async def test_the_retention_counts_from_the_first_attempt(
        self, scheduling: Scheduling, target: Service
    ) -> None:
        # An attempt may take 5 minutes, so the last one may begin 55 minutes after the first.
        deliverer = Deliverer(scheduling, target, keeps=timedelta(minutes=60))
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(503, Retry_After="1500")
        states = []
        for _ in range(3):
            (row,) = await deliverer.work()
            states.append(row["state"])
            scheduling.clock.advance(seconds=1500)
        assert states == ["RETRYING", "RETRYING", "DEAD"]
        assert len(target.received) == 3
        await deliverer.caller.close()

    async def test_a_retry_that_waited_too_long_for_a_slot_is_not_sent(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule(overlap="queue", catch_up="none")
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(503)
        await deliverer.work()
        scheduling.clock.advance(hours=24)
        sent = len(target.received)
        await scheduling.execute("UPDATE tenantcron.schedule_cursor SET next_run_at = NULL")
        (row, *_) = await deliverer.work()
        assert row["state"] == "DEAD"
        assert "may have forgotten the idempotency key" in str(row["reason"])
        assert len(target.received) == sent

    async def test_an_operators_retry_begins_a_new_series(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(400)
        (row,) = await deliverer.work()
        await scheduling.execute("UPDATE tenantcron.schedule_cursor SET next_run_at = NULL")
        scheduling.clock.advance(days=2)
        operator = Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)
        await operator.retry(str(row["id"]))
        target.behaviour = answering(503)
        (row,) = await deliverer.work()
        assert row["state"] == "RETRYING"
        scheduling.clock.advance(seconds=2)
        target.behaviour = answering(200)
        (row,) = await deliverer.work()
        assert (row["state"], row["attempt"]) == ("SUCCEEDED", 3)

    async def test_a_handler_that_requests_too_long_a_delay_ends(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        (execution,) = await scheduling.claim_all()
        await scheduling.finish(
            execution, AttemptOutcome.FAILED, "not yet", retry_after=timedelta(days=2)
        )
        (row,) = await scheduling.rows()
        assert row["state"] == "DEAD"
        assert "(the attempt before it: not yet)" in str(row["reason"])

    def margin(self, deliverer: Deliverer) -> float | None:
        return deliverer.replica.retention.margin

    async def test_a_small_margin_is_logged(self, scheduling: Scheduling, target: Service) -> None:
        deliverer = Deliverer(scheduling, target, keeps=timedelta(minutes=60))
        assert self.margin(deliverer) is None
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        target.behaviour = answering(503, Retry_After="60")
        with capture_logs() as logs:
            await deliverer.work()
        # 60 minutes less the delay and the 5 minutes that the next attempt may take.
        assert self.margin(deliverer) == 54 * 60
        assert not [line for line in logs if line["event"] == "retention_margin_small"]

        scheduling.clock.advance(seconds=60)
        target.behaviour = answering(503, Retry_After="3200")
        with capture_logs() as logs:
            await deliverer.work()
        assert self.margin(deliverer) == 40
        (line,) = [line for line in logs if line["event"] == "retention_margin_small"]
        assert (line["tenant"], line["margin_seconds"]) == ("acme", 40)
        await deliverer.caller.close()

    async def test_the_margin_of_the_tightest_retry_counts(
        self, scheduling: Scheduling, deliverer: Deliverer, target: Service
    ) -> None:
        await deliverer.schedule()
        scheduling.clock.advance(hours=1)
        margins = []
        for after in ("3600", "60"):
            target.behaviour = answering(503, Retry_After=after)
            await deliverer.work()
            margins.append(deliverer.replica.retention.margin)
            scheduling.clock.advance(hours=1)
            await scheduling.execute("UPDATE tenantcron.schedule_cursor SET next_run_at = NULL")
        assert margins[0] == (24 - 1) * 3600 - 300
        assert margins[1] == min(m for m in margins if m is not None)


def test_the_key_of_an_occurrence_has_its_time_in_milliseconds() -> None:
    assert idempotency_key(claimed()) == f"sched:{UUID(int=2)}:1794794400000"


def test_the_key_of_a_manual_trigger_has_its_execution() -> None:
    execution = claimed(actor=Actor("maria", ActorType.HUMAN, "manual"))
    assert idempotency_key(execution) == f"sched:{UUID(int=2)}:1794794400000:{execution.id}"
