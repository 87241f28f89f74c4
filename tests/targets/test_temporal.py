"""Temporal targets with a real server and a real worker: one workflow for each execution."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.calls import KEY, TOKEN, FixedTokens
from support.patience import PATIENCE
from support.temporal_calls import (
    ended_call,
    stop,
    temporal_call,
    temporal_runner,
    until_async,
)
from support.temporal_server import TemporalDevServer, temporal_server, temporal_worker

from tenantcron.core.egress import Egress, Url
from tenantcron.core.errors import UsageError
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.targets import extras
from tenantcron.targets.contract import RunnerServices
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.output import collect_from_here
from tenantcron.targets.responses import FailCall, RetryCall
from tenantcron.targets.temporal.runner import TemporalAdapter, TemporalRunner
from tenantcron.targets.temporal.workflows import Workflow, WorkflowRun


@pytest.fixture(scope="module", autouse=True)
async def one_loop() -> AsyncIterator[None]:
    """Keep one event loop for all tests: a thread of grpc.aio may use it after a test."""
    yield  # noqa: PT022 -- it lasts as long as the module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server and the worker have their files."""
    return tmp_path_factory.mktemp("temporal")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TemporalDevServer]:
    """A real server with a worker; each test uses its own executions."""
    with temporal_server(folder) as running, temporal_worker(running, folder):
        yield running


@pytest.fixture
async def runner(server: TemporalDevServer) -> AsyncIterator[TemporalRunner]:
    """The runner of a replica."""
    opened = temporal_runner(server)
    yield opened
    await opened.close()


def starts(folder: Path, execution: UUID) -> int:
    """Return how many workflows have begun their work for an execution."""
    file = folder / "started"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return Counter(lines)[str(execution)]


def statuses(server: TemporalDevServer, execution: UUID) -> list[str]:
    """Return the status of each workflow for an execution, the oldest first."""
    return [run.status for run in server.runs(execution)]


async def test_a_workflow_receives_the_execution_and_its_result_is_stored(
    server: TemporalDevServer, runner: TemporalRunner
) -> None:
    output = collect_from_here()
    call = temporal_call({"result": {"invoices": 12}})
    assert (await ended_call(runner, call)).error is None
    assert output.result == '{"invoices":12}'
    started = await asyncio.to_thread(server.started, call.execution.id)
    assert (started.workflow_type.name, started.task_queue.name) == ("Work", "tests")
    # The timeout of the attempt, and a minute.
    assert started.workflow_execution_timeout.seconds == 360
    (argument,) = started.input.payloads
    given = json.loads(argument.data)
    assert given.pop("traceparent").startswith(f"00-{call.execution.id.hex}-")
    assert given == {
        "execution_id": str(call.execution.id),
        "tenant": "acme",
        "schedule": "nightly",
        "saga": "reconcile",
        "scheduled_for": "2026-11-16T02:00:00+00:00",
        "payload": {"result": {"invoices": 12}},
        "idempotency_key": KEY,
        "attempt": 1,
        "fence": 1,
        "actor": {
            "id": "system:scheduler:billing",
            "type": "scheduler",
            "source": "cron-scheduler",
        },
    }
    memo = {name: json.loads(part.data) for name, part in started.memo.fields.items()}
    assert memo == {name: part for name, part in given.items() if name != "payload"}


@pytest.mark.parametrize(
    ("payload", "kind", "reason"),
    [
        ({"fails": "retryable"}, RetryCall, "the workflow failed: Busy: the printer is busy"),
        ({"fails": "final"}, FailCall, "the workflow failed: no such customer"),
        ({"fails": "activity"}, FailCall, "the workflow failed: NoSuchCustomer: no such customer"),
    ],
)
async def test_the_application_failure_decides_on_a_retry(
    runner: TemporalRunner, payload: JsonObject, kind: type[Exception], reason: str
) -> None:
    end = await ended_call(runner, temporal_call(payload))
    assert isinstance(end.error, kind)
    assert end.reason == reason


async def test_a_workflow_can_delay_the_retry(runner: TemporalRunner) -> None:
    end = await ended_call(runner, temporal_call({"fails": "delayed"}))
    assert isinstance(end.error, RetryCall)
    assert end.error.after is not None
    assert end.error.after.total_seconds() == 300


@pytest.mark.parametrize("result", ["twelve", 12, [1, 2], None])
async def test_a_result_may_be_any_json(runner: TemporalRunner, result: Any) -> None:
    output = collect_from_here()
    assert (await ended_call(runner, temporal_call({"result": result}))).error is None
    assert output.result == (None if result is None else json.dumps(result, separators=(",", ":")))


async def test_a_workflow_that_continues_as_new_is_followed(
    runner: TemporalRunner, folder: Path
) -> None:
    call = temporal_call({"continues": True, "result": "done"})
    output = collect_from_here()
    assert (await ended_call(runner, call)).error is None
    assert output.result == '"done"'
    assert starts(folder, call.execution.id) == 2


async def test_an_attempt_that_is_started_twice_is_one_workflow(
    server: TemporalDevServer, runner: TemporalRunner, folder: Path
) -> None:
    call = temporal_call({"waits": True})
    both = [asyncio.create_task(ended_call(runner, call)) for _ in range(2)]
    await until_async(lambda: starts(folder, call.execution.id) == 1)
    await asyncio.to_thread(server.signal, call.execution.id, "open")
    assert [end.error for end in await asyncio.gather(*both)] == [None, None]
    # Also after its end.
    assert (await ended_call(runner, call)).error is None
    assert starts(folder, call.execution.id) == 1


async def test_the_next_attempt_attaches_to_a_workflow_whose_replica_has_stopped(
    server: TemporalDevServer, runner: TemporalRunner, folder: Path
) -> None:
    first = temporal_call({"waits": True, "result": 7})
    running = asyncio.create_task(ended_call(runner, first))
    await until_async(lambda: starts(folder, first.execution.id) == 1)
    await stop(running, first, interrupted=True)
    second = temporal_call(first.execution.payload, 2, of=first.execution.id)
    output = collect_from_here()
    attached = asyncio.create_task(ended_call(runner, second))
    await asyncio.to_thread(server.signal, first.execution.id, "open")
    assert (await attached).error is None
    # It has ended: a third attempt takes its result.
    third = temporal_call({}, 3, of=first.execution.id)
    assert (await ended_call(runner, third)).error is None
    assert output.result == "7"
    assert starts(folder, first.execution.id) == 1


async def test_a_retry_after_a_failure_is_a_new_run_of_the_same_workflow(
    server: TemporalDevServer, runner: TemporalRunner, folder: Path
) -> None:
    first = temporal_call({"fails": "first"})
    assert isinstance((await ended_call(runner, first)).error, RetryCall)
    # The same attempt again is the same run, which has failed.
    assert isinstance((await ended_call(runner, first)).error, RetryCall)
    second = temporal_call(first.execution.payload, 2, of=first.execution.id)
    assert (await ended_call(runner, second)).error is None
    assert starts(folder, first.execution.id) == 2
    await until_async(lambda: statuses(server, first.execution.id) == ["FAILED", "COMPLETED"])


async def test_a_timeout_or_a_cancellation_cancels_the_workflow(
    server: TemporalDevServer, runner: TemporalRunner, folder: Path
) -> None:
    call = temporal_call({"waits": True})
    running = asyncio.create_task(ended_call(runner, call))
    await until_async(lambda: starts(folder, call.execution.id) == 1)
    await stop(running, call, interrupted=False)
    await until_async(lambda: server.status(call.execution.id) == "CANCELED")


async def test_an_attempt_that_is_cancelled_during_the_start_leaves_no_workflow(
    server: TemporalDevServer, runner: TemporalRunner
) -> None:
    call = temporal_call({"waits": True})
    running = asyncio.create_task(ended_call(runner, call))
    # The task has begun the start, and the response is not there yet.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stop(running, call, interrupted=False)
    await until_async(lambda: server.status(call.execution.id) in ("", "CANCELED"))


async def test_a_retry_after_a_timeout_waits_for_the_clean_up_and_starts_a_new_run(
    server: TemporalDevServer,
    runner: TemporalRunner,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_cancelling, attached = Workflow.is_cancelling, asyncio.Event()

    async def noted(workflow: Workflow, run: WorkflowRun) -> bool:
        found = await is_cancelling(workflow, run)
        attached.set()
        return found

    monkeypatch.setattr(Workflow, "is_cancelling", noted)
    first = temporal_call({"waits": True, "cleans_up": True})
    running = asyncio.create_task(ended_call(runner, first))
    await until_async(lambda: starts(folder, first.execution.id) == 1)
    # A workflow that is cancelled in its activity does not clean up.
    await until_async(lambda: server.has_done_activity(first.execution.id))
    await stop(running, first, interrupted=False)
    await until_async(lambda: server.has_seen_cancellation(first.execution.id))
    second = temporal_call({}, 2, of=first.execution.id)
    retried = asyncio.create_task(ended_call(runner, second))
    async with asyncio.timeout(PATIENCE):
        await attached.wait()
    await asyncio.to_thread(server.signal, first.execution.id, "open")
    assert (await retried).error is None
    assert starts(folder, first.execution.id) == 2
    await until_async(lambda: statuses(server, first.execution.id) == ["CANCELED", "COMPLETED"])
    cleaned_up, again = await asyncio.to_thread(server.runs, first.execution.id)
    assert cleaned_up.closed_at <= again.started_at


async def test_a_workflow_that_is_terminated_in_temporal_is_not_retried(
    server: TemporalDevServer, runner: TemporalRunner, folder: Path
) -> None:
    call = temporal_call({"waits": True})
    running = asyncio.create_task(ended_call(runner, call))
    await until_async(lambda: starts(folder, call.execution.id) == 1)
    await asyncio.to_thread(server.terminate, call.execution.id, "wrong month")
    end = await running
    assert isinstance(end.error, FailCall)
    assert end.reason == "the workflow was terminated in Temporal: wrong month"


async def test_a_server_that_is_down_is_retried_and_a_restart_does_not_end_an_attempt(
    tmp_path: Path,
) -> None:
    with temporal_server(tmp_path) as own, temporal_worker(own, tmp_path):
        runner, call = temporal_runner(own), temporal_call({"waits": True})
        running = asyncio.create_task(ended_call(runner, call))
        await until_async(lambda: starts(tmp_path, call.execution.id) == 1)
        own.kill()
        end = await ended_call(runner, temporal_call())
        assert isinstance(end.error, RetryCall)
        assert end.reason == "the Temporal server cannot be reached"
        await asyncio.to_thread(own.start)
        await asyncio.to_thread(own.signal, call.execution.id, "open")
        assert (await running).error is None
        assert starts(tmp_path, call.execution.id) == 1
        await runner.close()


async def test_a_missing_namespace_is_retried_and_a_payload_that_is_too_long_is_final(
    runner: TemporalRunner,
) -> None:
    end = await ended_call(runner, temporal_call(namespace="missing"))
    assert isinstance(end.error, RetryCall)
    assert "NOT_FOUND: Namespace missing is not found" in end.reason
    end = await ended_call(runner, temporal_call({"text": "x" * 3_000_000}))
    assert isinstance(end.error, FailCall)
    assert "INVALID_ARGUMENT" in end.reason


async def test_a_token_is_for_the_workers_of_the_task_queue_and_is_redacted(
    server: TemporalDevServer, runner: TemporalRunner
) -> None:
    tokens, output = FixedTokens(), collect_from_here()
    call = replace(temporal_call({"result": TOKEN}, auth="execution_token"), tokens=tokens)
    assert (await ended_call(runner, call)).error is None
    assert tokens.audiences == ["temporal://default/tests"]
    assert output.result == '"***"'
    started = await asyncio.to_thread(server.started, call.execution.id)
    assert json.loads(started.input.payloads[0].data)["token"] == TOKEN
    assert TOKEN.encode() not in started.memo.SerializeToString()
    other: Any = {"execution_token": {"audience": "https://admin.internal"}}
    refused = replace(temporal_call(auth=other), tokens=tokens)
    end = await ended_call(runner, refused)
    assert isinstance(end.error, FailCall)
    assert "https://admin.internal is not an audience" in end.reason


def services(**settings: Any) -> RunnerServices:
    return RunnerServices(HttpClient(Egress()), None, Settings(folder=Path(), **settings))


def test_a_scheduler_with_incomplete_settings_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, ref = Url("http", "localhost", 7233, "/"), SecretRef("env", "TEMPORAL")
    with pytest.raises(UsageError, match="need the setting temporal_address"):
        TemporalAdapter().open(services())
    with pytest.raises(UsageError, match="credentials need TLS"):
        TemporalAdapter().open(services(temporal_address=plain, temporal_api_key=ref))
    secure = plain._replace(scheme="https")
    with pytest.raises(UsageError, match="temporal_certificate and temporal_key together"):
        TemporalAdapter().open(services(temporal_address=secure, temporal_key=ref))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"install tenantcron\[temporal\]"):
        TemporalAdapter().open(services(temporal_address=secure))


async def test_an_attempt_without_its_secret_is_retried() -> None:
    address, ref = Url("https", "localhost", 7233, "/"), SecretRef("env", f"NO_{uuid4().hex}")
    runner = TemporalAdapter().open(services(temporal_address=address, temporal_api_key=ref))
    end = await ended_call(runner, temporal_call())
    assert isinstance(end.error, RetryCall)
    assert f"the secret {ref} is missing" in end.reason
    await runner.close()
