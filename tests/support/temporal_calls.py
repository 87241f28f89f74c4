"""Attempts at Temporal targets, without a scheduler."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from support.calls import KEY, STARTED_AT, Ended, an_execution
from support.patience import PATIENCE
from support.temporal_server import TemporalDevServer

from tenantcron.core.egress import Egress, Url
from tenantcron.core.settings import Settings
from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.targets.contract import RunnerServices, TargetCall
from tenantcron.targets.execution import Cancellation
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.responses import FailCall, RetryCall
from tenantcron.targets.temporal.runner import TemporalAdapter, TemporalRunner


def temporal_runner(server: TemporalDevServer) -> TemporalRunner:
    """Return the runner of a replica."""
    address = Url("http", "127.0.0.1", server.port, "/")
    settings = Settings(folder=Path(), temporal_address=address)
    return TemporalAdapter().open(RunnerServices(HttpClient(Egress()), None, settings))


def temporal_call(
    payload: JsonObject | None = None,
    attempt: int = 1,
    *,
    of: UUID | None = None,
    **options: JsonValue,
) -> TargetCall:
    """Return an attempt of an execution, by default of a new one."""
    execution = replace(
        an_execution(attempt, payload or {}), id=of or uuid4(), _cancellation=Cancellation()
    )
    return TargetCall(
        execution=execution,
        target=OtherTarget("temporal", {"workflow": "Work", "task_queue": "tests", **options}),
        key=KEY,
        started_at=STARTED_AT,
        timeout=timedelta(minutes=5),
        egress=Egress(),
        allowed_secrets=(),
        allowed_audiences=(),
        allowed_temporal_workflows=("default/tests/*", "missing/tests/*"),
    )


async def ended_call(runner: TemporalRunner, call: TargetCall) -> Ended:
    """Run an attempt, and return its failure if there is one."""
    try:
        await runner.run(call)
    except (RetryCall, FailCall) as error:
        return Ended(call.answer, error)
    return Ended(call.answer)


async def stop(running: "asyncio.Task[Ended]", call: TargetCall, *, interrupted: bool) -> None:
    """Stop an attempt as a scheduler does, and wait until it has cleaned up."""
    call.execution._cancellation.interrupted = interrupted
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


async def until_async(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must become true, while tasks run."""
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)
