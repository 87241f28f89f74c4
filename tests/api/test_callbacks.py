"""Callbacks: remote workers report heartbeats and the end of their attempts to the API."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.remote_work import HEARTBEAT, RemoteWork, remote_work
from support.services import answering, forever, writing
from support.serving import ADA

from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.steps.attempts import AttemptOutcome, Stop
from tenantcron.scheduler.steps.claim import release_unstarted
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import ConflictError, DatabaseAwayError

RETRIES = {"retry": {"max_attempts": 2, "backoff": "1m", "max_backoff": "1m"}}


@pytest.fixture
async def work(database: Database, tmp_path: Path) -> AsyncIterator[RemoteWork]:
    """An execution with two attempts that is due."""
    async with remote_work(database, tmp_path, **RETRIES) as running:
        yield running


async def expire(work: RemoteWork) -> int:
    return await recover_lost(work.scheduling.replica("two"))


class TestCompletion:
    async def test_an_accepted_execution_keeps_running_until_its_worker_completes_it(
        self, work: RemoteWork
    ) -> None:
        worker = await work.accepted()
        row = await work.row()
        now = work.scheduling.clock.now
        assert (row["state"], row["handed_over_attempt"]) == ("RUNNING", 1)
        assert row["lease_until"] == now + timedelta(minutes=1)  # the longer one: of the replica
        answer = await worker.report("complete", result={"rows": 7}, progress=100)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {
            "execution": str(row["id"]),
            "attempt": 1,
            "outcome": "SUCCEEDED",
            "state": "SUCCEEDED",
            "repeated": False,
        }
        (attempt,) = await work.scheduling.attempts(row["id"])
        assert (attempt.outcome, attempt.result) == ("SUCCEEDED", {"rows": 7})
        assert ((await work.row())["state"], (await work.row())["progress"]) == ("SUCCEEDED", 100)

    async def test_the_request_has_all_that_a_worker_needs(self, work: RemoteWork) -> None:
        headers = (await work.accepted()).headers
        row = await work.row()
        assert headers["x-tenantcron-callback-url"] == f"{work.url}/v1/executions/{row['id']}"
        assert headers["x-tenantcron-heartbeat"] == "30"
        deadline = work.scheduling.clock.now + timedelta(minutes=10)
        assert headers["x-tenantcron-deadline"] == deadline.isoformat()
        assert "authorization" not in headers

    async def test_a_repeated_completion_is_answered_with_the_recorded_outcome(
        self, work: RemoteWork
    ) -> None:
        worker = await work.accepted()
        first = await worker.report("complete", result=1)
        again = await worker.report("complete", result=2)
        contrary = await worker.report("fail", message="too late")
        assert again.status_code == contrary.status_code == 200
        assert again.json() == contrary.json() == {**first.json(), "repeated": True}
        (attempt,) = await work.scheduling.attempts((await work.row())["id"])
        assert attempt.result == 1

    @pytest.mark.parametrize("status", [200, 201, 204])
    async def test_another_2xx_ends_the_attempt_at_once(
        self, work: RemoteWork, status: int
    ) -> None:
        work.target.behaviour = answering(status)
        attempt = await work.start()
        assert (attempt.accepted, attempt.outcome) == (False, AttemptOutcome.SUCCEEDED)
        assert (await work.row())["state"] == "SUCCEEDED"
        late = await work.last_worker.report("complete")
        assert late.status_code == 409

    async def test_a_worker_may_complete_before_its_202(self, work: RemoteWork) -> None:
        async def complete_first(request: object, writer: object) -> None:
            answer = await work.last_worker.report("complete")
            assert answer.status_code == 200, answer.text
            await answering(202)(request, writer)  # type: ignore[arg-type] # as given

        work.target.behaviour = complete_first
        assert (await work.start()).accepted
        assert (await work.row())["state"] == "SUCCEEDED"

    async def test_a_completion_after_a_failed_call_is_refused(self, work: RemoteWork) -> None:
        work.target.behaviour = writing(b"HTTP/1.1 202 Accepted\r\nContent-Le")
        assert (await work.start()).outcome is AttemptOutcome.FAILED
        assert (await work.row())["state"] == "RETRYING"
        late = await work.last_worker.report("complete")
        assert (late.status_code, late.json()["code"]) == (409, "TC730")
        assert (await work.row())["state"] == "RETRYING"


class TestFailure:
    async def test_a_retryable_failure_is_retried_after_the_requested_time(
        self, work: RemoteWork
    ) -> None:
        worker = await work.accepted()
        answer = await worker.report("fail", message="no capacity", retry_after=90)
        assert answer.json()["state"] == "RETRYING"
        row = await work.row()
        assert row["not_before"] == work.scheduling.clock.now + timedelta(seconds=90)
        assert row["reason"] == "no capacity"

    async def test_a_final_failure_is_not_retried(self, work: RemoteWork) -> None:
        worker = await work.accepted()
        answer = await worker.report("fail", message="no such customer", retryable=False)
        assert (answer.json()["outcome"], answer.json()["state"]) == ("FAILED", "DEAD")
        assert (await worker.report("fail", message="again")).json()["repeated"] is True


class TestHeartbeats:
    async def test_heartbeats_renew_the_lease_and_store_the_progress(
        self, work: RemoteWork
    ) -> None:
        worker, clock = await work.accepted(), work.scheduling.clock
        for percent in (10, 20, 30):
            clock.advance(seconds=25)
            answer = await worker.report("heartbeat", progress=percent, progress_text="reading")
            assert answer.json()["cancel"] is False
            assert await expire(work) == 0
        row = await work.row()
        assert row["lease_until"] == clock.now + HEARTBEAT
        assert (row["progress"], row["progress_text"]) == (30, "reading")
        await worker.report("heartbeat")
        assert (await work.row())["progress"] == 30

    async def test_a_missing_heartbeat_loses_the_attempt_which_counts_and_is_no_suspect(
        self, work: RemoteWork
    ) -> None:
        worker = await work.accepted()
        await worker.report("heartbeat")
        work.scheduling.clock.advance(seconds=31)
        assert await expire(work) == 1
        row = await work.row()
        assert (row["state"], row["reason_code"]) == ("RETRYING", "heartbeat_missed")
        assert (row["losses"], row["suspicion"], row["attempts_allowed"]) == (0, 0, 2)
        (attempt,) = await work.scheduling.attempts(row["id"])
        assert attempt.outcome == "LOST"
        assert (await worker.report("complete")).status_code == 409
        work.scheduling.clock.advance(minutes=2)
        await work.accepted()
        work.scheduling.clock.advance(minutes=2)
        await expire(work)
        assert (await work.row())["state"] == "DEAD"

    async def test_the_timeout_ends_the_attempt_whatever_its_heartbeats(
        self, work: RemoteWork
    ) -> None:
        worker, clock = await work.accepted(), work.scheduling.clock
        for _ in range(23):
            clock.advance(seconds=25)
            assert (await worker.report("heartbeat")).json()["cancel"] is False
        clock.advance(seconds=25)
        late = await worker.report("complete")
        assert late.status_code == 409
        answered = await worker.report("heartbeat")
        assert answered.json() == {
            "cancel": True,
            "reason": "timed out",
            "deadline": None,
            "heartbeat_seconds": None,
        }
        clock.advance(seconds=1)
        await expire(work)
        row = await work.row()
        assert (row["state"], row["reason"]) == ("RETRYING", "timed out after 10m")
        assert (await worker.report("heartbeat")).json()["cancel"] is True
        assert (await worker.report("complete")).status_code == 409

    async def test_a_cancellation_reaches_the_worker_with_its_next_heartbeat(
        self, work: RemoteWork
    ) -> None:
        worker, scheduling = await work.accepted(), work.scheduling
        row = await work.row()
        operator = Operator(scheduling.database, scheduling.settings, ADA, scheduling.clock)
        await operator.cancel(str(row["id"]), "wrong month")
        answer = await worker.report("heartbeat")
        assert (answer.json()["cancel"], answer.json()["reason"]) == (True, "wrong month")
        ended = await worker.report("fail", message="stopped")
        assert (ended.json()["outcome"], ended.json()["state"]) == ("CANCELLED", "CANCELLED")
        assert (await work.row())["reason"] == "wrong month"

    async def test_a_worker_that_ignores_a_cancellation_loses_its_lease(
        self, work: RemoteWork
    ) -> None:
        worker, scheduling = await work.accepted(), work.scheduling
        row = await work.row()
        operator = Operator(scheduling.database, scheduling.settings, ADA, scheduling.clock)
        await operator.cancel(str(row["id"]), "wrong month")
        for _ in range(3):
            await worker.report("heartbeat")
            scheduling.clock.advance(seconds=25)
        await expire(work)
        assert ((await work.row())["state"], (await work.row())["reason_code"]) == (
            "CANCELLED",
            "cancelled",
        )
        assert (await worker.report("heartbeat")).json()["cancel"] is True

    async def test_a_cancellation_shortens_the_wait_for_the_first_heartbeat(
        self, work: RemoteWork
    ) -> None:
        await work.accepted()
        scheduling, row = work.scheduling, await work.row()
        await scheduling.execute("UPDATE tenantcron.execution SET lease_until = attempt_deadline")
        operator = Operator(scheduling.database, scheduling.settings, ADA, scheduling.clock)
        await operator.cancel(str(row["id"]), "wrong month")
        assert (await work.row())["lease_until"] == scheduling.clock.now + 2 * HEARTBEAT
        scheduling.clock.advance(seconds=61)
        await expire(work)
        assert (await work.row())["state"] == "CANCELLED"

    async def test_a_replacement_shortens_the_wait_for_the_first_heartbeat(
        self, work: RemoteWork
    ) -> None:
        await work.accepted()
        scheduling, row = work.scheduling, await work.row()
        await scheduling.execute("UPDATE tenantcron.execution SET lease_until = attempt_deadline")
        columns = {"schedule_id": row["schedule_id"], "schedule_name": "report"}
        await scheduling.waiting(1, overlap="cancel_running", **columns)
        await scheduling.claim()
        (running,) = [each for each in await scheduling.rows() if each["id"] == row["id"]]
        assert running["cancel_reason_code"] == "replaced"
        assert running["lease_until"] == scheduling.clock.now + 2 * HEARTBEAT

    async def test_a_completion_counts_although_a_cancellation_was_requested(
        self, work: RemoteWork
    ) -> None:
        worker, scheduling = await work.accepted(), work.scheduling
        operator = Operator(scheduling.database, scheduling.settings, ADA, scheduling.clock)
        await operator.cancel(str((await work.row())["id"]), "wrong month")
        assert (await worker.report("complete")).json()["state"] == "SUCCEEDED"


class TestDeliveries:
    """A broker delivers the message of an attempt again while its first worker runs."""

    async def test_a_second_delivery_is_refused_while_the_first_one_sends_heartbeats(
        self, work: RemoteWork
    ) -> None:
        worker, clock = await work.accepted(), work.scheduling.clock
        assert (await worker.report("heartbeat", delivery="a")).status_code == 200
        for _ in range(3):
            clock.advance(seconds=20)
            refused = await worker.report("heartbeat", delivery="b")
            assert (refused.status_code, refused.json()["code"]) == (409, "TC740")
            assert (await worker.report("heartbeat", delivery="a")).status_code == 200
        failed = await worker.report("fail", message="second", delivery="b")
        assert (failed.status_code, failed.json()["code"]) == (409, "TC740")
        assert (await worker.report("complete")).json()["state"] == "SUCCEEDED"

    async def test_it_takes_over_when_the_first_one_is_silent(self, work: RemoteWork) -> None:
        worker, clock = await work.accepted(), work.scheduling.clock
        await worker.report("heartbeat", delivery="a")
        clock.advance(seconds=24)
        assert (await worker.report("heartbeat", delivery="b")).status_code == 409
        clock.advance(seconds=1)
        assert (await worker.report("heartbeat", delivery="b")).status_code == 200
        assert (await worker.report("heartbeat", delivery="a")).status_code == 409
        clock.advance(seconds=20)
        assert await expire(work) == 0
        failed = await worker.report("fail", message="no paper", delivery="b")
        assert failed.json()["state"] == "RETRYING"

    async def test_the_next_attempt_has_its_own_deliveries(self, work: RemoteWork) -> None:
        first = await work.accepted()
        await first.report("heartbeat", delivery="a")
        await first.report("fail", message="no capacity", delivery="a")
        work.scheduling.clock.advance(minutes=2)
        second = await work.accepted()
        stale = await first.report("heartbeat", delivery="a")
        assert (stale.status_code, stale.json()["code"]) == (409, "TC730")
        assert (await second.report("heartbeat", delivery="b")).status_code == 200

    async def test_a_worker_without_deliveries_is_not_refused(self, work: RemoteWork) -> None:
        worker = await work.accepted()
        await worker.report("heartbeat", delivery="a")
        assert (await worker.report("heartbeat")).status_code == 200


class TestReplica:
    async def test_the_replica_that_called_does_not_release_what_it_has_handed_over(
        self, work: RemoteWork
    ) -> None:
        worker = await work.accepted()
        await release_unstarted(work.scheduling.replica(), set())
        assert (await work.row())["state"] == "RUNNING"
        assert (await worker.report("complete")).status_code == 200

    async def test_a_call_that_is_lost_with_its_replica_continues_at_the_worker(
        self, work: RemoteWork
    ) -> None:
        # The service has the request, and the replica dies before the 202: nothing is written.
        worker = await work.accepted()
        work.scheduling.clock.advance(seconds=25)
        await worker.report("heartbeat")
        work.scheduling.clock.advance(seconds=25)
        assert await expire(work) == 0
        assert (await worker.report("complete")).json()["state"] == "SUCCEEDED"

    @pytest.mark.parametrize("stop", [Stop.INTERRUPTED, Stop.LOST])
    async def test_a_replica_that_stops_during_the_call_leaves_the_attempt_to_its_worker(
        self, work: RemoteWork, stop: Stop
    ) -> None:
        work.target.behaviour = forever
        starting = asyncio.create_task(work.start())
        await work.target.arrived.wait()
        work.executor.cancel((await work.row())["id"], stop)
        attempt = await starting
        assert attempt.accepted
        assert (await work.row())["state"] == "RUNNING"
        assert (await work.last_worker.report("complete")).json()["state"] == "SUCCEEDED"

    @pytest.mark.parametrize("stop", [Stop.TIMED_OUT, Stop.CANCELLED])
    async def test_a_timeout_or_a_cancellation_during_the_call_ends_the_attempt(
        self, work: RemoteWork, stop: Stop
    ) -> None:
        work.target.behaviour = forever
        starting = asyncio.create_task(work.start())
        await work.target.arrived.wait()
        work.executor.cancel((await work.row())["id"], stop)
        assert (await starting).outcome.value == stop.value
        assert (await work.last_worker.report("complete")).status_code == 409

    @pytest.mark.parametrize(
        "step",
        [
            "tenantcron.store.steps.callbacks.hand_over_free",
            "tenantcron.store.steps.minting.permits",
        ],
    )
    async def test_a_database_error_before_the_call_uses_up_no_attempt(
        self, work: RemoteWork, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        module, name = step.rsplit(".", 1)
        original, errors = (
            getattr(import_module(module), name),
            [
                DatabaseAwayError("the connection was lost"),
                ConflictError("another transaction"),
            ],
        )

        async def failing(*given: Any, **options: Any) -> Any:
            if errors:
                raise errors.pop()
            return await original(*given, **options)

        monkeypatch.setattr(step, failing)
        monkeypatch.setattr("tenantcron.scheduler.steps.hand_over._FIRST_PAUSE", 0.0)
        worker = await work.accepted()
        assert (await worker.report("complete")).json()["attempt"] == 1

    async def test_the_next_occurrence_is_skipped_while_a_remote_worker_runs_the_previous_one(
        self, work: RemoteWork
    ) -> None:
        await work.accepted()
        running, scheduling = await work.row(), work.scheduling
        scheduling.clock.advance(seconds=1)
        columns = {"schedule_id": running["schedule_id"], "schedule_name": "report"}
        await scheduling.waiting(1, start_deadline=scheduling.clock.now, **columns)
        assert (await scheduling.claim()).started == ()
        assert [row["state"] for row in await scheduling.rows()] == ["RUNNING", "SKIPPED"]

    async def test_the_cluster_limit_counts_executions_of_remote_workers(
        self, work: RemoteWork
    ) -> None:
        worker, scheduling = await work.accepted(), work.scheduling
        await scheduling.limit(1)
        await scheduling.waiting(1, tenant="globex")
        assert (await scheduling.claim()).started == ()
        await worker.report("complete")
        assert len((await scheduling.claim()).started) == 1


class TestTokens:
    @pytest.mark.parametrize(
        ("action", "body"),
        [
            ("complete", {"result": "x" * 20_000}),
            ("complete", {"result": "\0"}),
            ("heartbeat", {"progress": 101}),
            ("heartbeat", {"progress_text": "x" * 201}),
            ("fail", {}),
            ("fail", {"message": "x", "retry": True}),
        ],
    )
    async def test_a_malformed_report_changes_nothing(
        self, work: RemoteWork, action: str, body: dict[str, object]
    ) -> None:
        worker = await work.accepted()
        assert (await worker.report(action, None, **body)).status_code == 422
        assert (await work.row())["state"] == "RUNNING"


async def test_other_tokens_are_refused(work: RemoteWork) -> None:
    worker = await work.accepted()
    (row,) = await work.scheduling.rows()
    bad = await worker.report("complete", token="nonsense")  # noqa: S106 -- none
    assert bad.status_code == 401
    other = worker.headers["x-tenantcron-callback-url"].replace(
        str(row["id"]), "00000000-0000-0000-0000-000000000001"
    )
    moved = type(worker)({**worker.headers, "x-tenantcron-callback-url": other})
    assert (await moved.report("complete")).status_code == 401
    assert (await work.row())["state"] == "RUNNING"


async def test_an_old_attempt_is_refused_once_the_next_one_has_started(work: RemoteWork) -> None:
    first = await work.accepted()
    await first.report("fail", message="no capacity")
    work.scheduling.clock.advance(minutes=2)
    second = await work.accepted()
    for action, body in (("complete", {}), ("fail", {"message": "x"}), ("heartbeat", {})):
        stale = await first.report(action, None, **body)
        assert (stale.status_code, stale.json()["code"]) == (409, "TC730"), action
    assert (await second.report("complete")).json()["attempt"] == 2
