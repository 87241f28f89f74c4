"""Executions on behalf of an owner: the effect of each decision on rows and targets."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from support.deciding import UNDECIDED, Deciding, failing, saying
from support.handlers import NoDatabase, async_and_plain, doing_nothing, handler
from support.manifests import policy_with
from support.scheduling import Row, Scheduling
from support.services import Service, answering, service

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.core.values import JsonValue
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.steps.deliver import Deliveries, begun_in
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Authoriser, Refused
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.runner import HttpRunner
from tenantcron.targets.owner_check import OwnerCheck
from tenantcron.targets.python.registry import Handlers


class Steps:
    """Runs the steps of a replica on a real database."""

    def __init__(self, scheduling: Scheduling, executor: Executor) -> None:
        self.scheduling, self.executor = scheduling, executor
        self.replica = scheduling.replica()

    async def work(self) -> list[Row]:
        """Fire, claim, authorise, run and finish once; return the executions."""
        return await self.scheduling.work(self.replica, self.executor)


def nightly(authoriser: Authoriser) -> Executor:
    handlers = Handlers.of([handler(async_and_plain(doing_nothing)[0], "nightly")])
    return Executor(handlers, lambda _: NoDatabase(), authoriser=authoriser)


class TestRecords:
    async def test_a_refused_execution_is_skipped_with_the_reason_and_one_attempt(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        due = scheduling.clock.advance(hours=1)
        with capture_logs() as logs:
            (row,) = await Steps(scheduling, nightly(saying(Refused("has left")))).work()

        reason = "owner user:maria may not: has left"
        assert (row["state"], row["reason"], row["attempt"]) == ("SKIPPED", reason, 1)
        assert (row["finished_at"], row["lease_token"], row["lease_until"]) == (due, None, None)
        # The actor is the scheduler, not the owner.
        assert (row["actor_id"], row["actor_source"]) == (
            "system:scheduler:scheduler",
            "cron-scheduler",
        )
        (attempt,) = await scheduling.rows("execution_attempt", "attempt")
        assert (attempt["attempt"], attempt["outcome"], attempt["error"]) == (1, "REFUSED", reason)
        (line,) = [line for line in logs if line["event"] == "execution_skipped"]
        assert (line["reason"], line["schedule"], line["attempt"]) == (reason, "nightly", 1)
        assert await Steps(scheduling, nightly(saying(Allowed()))).work() == [row]

    async def test_refusals_neither_count_as_failures_nor_reset_the_count(
        self, scheduling: Scheduling
    ) -> None:
        schedule_id = await scheduling.schedule(owner="user:maria", auto_pause_after=3)
        await scheduling.set_cursor(schedule_id, consecutive_failures=2)
        steps = Steps(scheduling, nightly(saying(Refused("no"))))
        for _ in range(5):
            scheduling.clock.advance(hours=1)
            rows = await steps.work()
        assert [row["state"] for row in rows] == ["SKIPPED"] * 5
        cursor = await scheduling.cursor(schedule_id)
        assert (cursor["consecutive_failures"], cursor["paused_at"]) == (2, None)

    async def test_a_failed_authorisation_is_retried_and_then_dead(
        self, scheduling: Scheduling
    ) -> None:
        once: JsonValue = {"max_attempts": 2, "backoff": "1s", "max_backoff": "1s"}
        schedule_id = await scheduling.schedule(owner="user:maria", retry=once)
        steps = Steps(scheduling, nightly(failing(OSError("the directory is away"))))
        scheduling.clock.advance(hours=1)
        (row,) = await steps.work()
        reason = f"{UNDECIDED}OSError: the directory is away"
        assert (row["state"], row["reason"], row["attempt"]) == ("RETRYING", reason, 1)
        scheduling.clock.advance(seconds=2)
        (row,) = await steps.work()
        assert (row["state"], row["reason"], row["attempt"]) == ("DEAD", reason, 2)
        assert (await scheduling.cursor(schedule_id))["consecutive_failures"] == 1
        outcomes = [row["outcome"] for row in await scheduling.rows("execution_attempt", "attempt")]
        assert outcomes == ["FAILED", "FAILED"]

    async def test_an_execution_runs_if_the_next_authorisation_succeeds(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.advance(hours=1)
        await Steps(scheduling, nightly(failing(OSError()))).work()
        scheduling.clock.advance(seconds=2)
        (row,) = await Steps(scheduling, nightly(saying(Allowed()))).work()
        assert (row["state"], row["attempt"]) == ("SUCCEEDED", 2)

    async def test_a_refused_execution_can_be_retried_manually_and_is_authorised_again(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.advance(hours=1)
        (row,) = await Steps(scheduling, nightly(saying(Refused("not yet")))).work()
        ada = Attribution(Actor("ada", ActorType.HUMAN, "cli"))
        operator = Operator(scheduling.database, scheduling.settings, ada, scheduling.clock)
        await operator.retry(str(row["id"]))
        decides = saying(Allowed())
        (row,) = await Steps(scheduling, nightly(decides)).work()
        assert (row["state"], row["attempt"], len(decides.asked)) == ("SUCCEEDED", 2, 1)

    async def test_why_explains_that_the_owner_was_refused(self, scheduling: Scheduling) -> None:
        await scheduling.schedule(owner="user:maria")
        scheduling.clock.advance(hours=1)
        await Steps(scheduling, nightly(saying(Refused("has left")))).work()
        async with scheduling.database.transaction() as connection:
            ref, lease = schedule_ref("acme/nightly"), timedelta(minutes=1)
            status = await read_schedule_status(connection, ref, lease, scheduling.clock())
        (reason,) = [reason for reason in explain(status) if reason.code == "last-skipped"]
        assert "owner user:maria may not: has left" in reason.message
        assert "change `owner` in the manifest" in reason.hint

    async def test_no_transaction_is_open_during_authorisation(
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
        scheduling.clock.advance(hours=1)
        (row,) = await Steps(scheduling, nightly(Deciding(decide))).work()
        assert (row["state"], found) == ("SUCCEEDED", [])


class TestTargets:
    """A policy service decides over HTTP, and a target does the work."""

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
        caller = HttpClient(policy.egress)
        begun = begun_in(scheduling.database, scheduling.clock)
        executor = Executor(
            Handlers.of([]),
            lambda _: NoDatabase(),
            deliveries=Deliveries({"http": HttpRunner(caller)}, policy, begun),
            authoriser=OwnerCheck(caller, f"{decider.url}/may"),
        )
        http: JsonValue = {"url": target.url, "method": "POST", "headers": {}, "auth": "none"}
        await scheduling.schedule(owner="user:maria", target={"http": http})
        scheduling.clock.advance(hours=1)
        yield Steps(scheduling, executor)
        await caller.close()

    async def test_an_allowed_target_receives_the_owner(
        self, steps: Steps, target: Service, decider: Service
    ) -> None:
        (row,) = await steps.work()
        assert row["state"] == "SUCCEEDED"
        assert target.only.headers["x-tenantcron-owner"] == "user:maria"
        assert b'"owner":"user:maria"' in target.only.body
        assert str(row["id"]).encode() in decider.only.body

    async def test_a_refused_target_is_not_called(
        self, steps: Steps, scheduling: Scheduling, target: Service, decider: Service
    ) -> None:
        decider.behaviour = answering(200, b'{"allowed": false, "reason": "has left"}')
        (row,) = await steps.work()
        assert (row["state"], row["reason"]) == ("SKIPPED", "owner user:maria may not: has left")
        assert target.connections == 0
        (attempt,) = await scheduling.rows("execution_attempt", "attempt")
        # The response of the policy service is not recorded as that of the target.
        assert (attempt["http_status"], attempt["answer"]) == (None, None)

    async def test_the_target_is_not_called_while_the_policy_service_is_unavailable(
        self, steps: Steps, target: Service, decider: Service
    ) -> None:
        decider.behaviour = answering(503)
        (row,) = await steps.work()
        assert (row["state"], target.connections) == ("RETRYING", 0)
        assert row["reason"] == f"{UNDECIDED}the policy service answered 503"
