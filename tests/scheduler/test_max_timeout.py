"""No attempt runs longer than the policy of the scheduler allows."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.attempts import SETTINGS, STARTED_AT, HandClock, claimed
from support.fleet import Shell, manifest
from support.handlers import NoDatabase, handler
from support.processes import executions

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.python.registry import Handlers

HOUR = timedelta(hours=1)


def bounded(function: HandlerFunction, clock: HandClock) -> Executor:
    handlers = Handlers.of([handler(function)])
    return Executor(handlers, lambda _: NoDatabase(), call_later=clock, max_timeout=HOUR)


async def test_a_longer_timeout_is_capped_logged_and_named_in_the_error() -> None:
    started, clock, deadlines = asyncio.Event(), HandClock(), []

    async def hangs(execution: Execution) -> None:
        deadlines.append(execution.deadline)
        started.set()
        await asyncio.Event().wait()

    settings = SETTINGS._replace(timeout=timedelta(hours=12))
    with capture_logs() as logs:
        task = asyncio.create_task(bounded(hangs, clock).run(claimed(), settings))
        await started.wait()
    (timer,) = clock.pending
    assert timer.seconds == HOUR.total_seconds()
    timer.go_off()

    attempt = await task
    assert attempt.outcome is AttemptOutcome.TIMED_OUT
    assert str(attempt.error).startswith(
        "timed out after 1h: max_timeout of the policy; its schedule has 12h\n"
    )
    assert deadlines == [STARTED_AT + HOUR]
    (capped,) = [line for line in logs if line["event"] == "timeout_capped"]
    assert (capped["tenant"], capped["schedule"]) == ("acme", "nightly")
    assert (capped["timeout"], capped["max_timeout"]) == ("12h", "1h")


@pytest.mark.parametrize("timeout", [timedelta(minutes=5), HOUR])
async def test_a_timeout_within_the_policy_is_not_capped(timeout: timedelta) -> None:
    async def returns(_: Execution) -> None: ...

    with capture_logs() as logs:
        await bounded(returns, HandClock()).run(claimed(), SETTINGS._replace(timeout=timeout))
    assert "timeout_capped" not in [line["event"] for line in logs]


HANGS = """
import asyncio
from tenantcron import saga

@saga("hangs")
async def hangs(execution):
    await asyncio.sleep(600)
"""


def test_the_policy_of_the_scheduler_caps_a_timeout_applied_under_a_looser_one(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "hanging.py").write_text(HANGS, encoding="utf-8")
    retry = "retry: {max_attempts: 1}"
    text = manifest("acme", {"hangs": f"every: 1d, timeout: 20s, {retry}"})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "platform.toml").write_text('[policy]\nmax_timeout = "1s"\n', encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("run", "--once").code == 0
    assert shell("schedule", "trigger", "acme/hangs").code == 0

    ran = shell("run", "--once", "--handlers", "hanging", "--policy", "platform.toml")

    assert ran.code == 0, ran.err
    assert "timeout_capped" in ran.err
    (row,) = executions(database_url)
    assert row["state"] == "DEAD"
    why = shell("why", "acme/hangs")
    assert "timed out after 1s: max_timeout of the policy" in why.out
