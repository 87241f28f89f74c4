"""The log and the result of an attempt, from its handler to `execution show`."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from support.attempts import SETTINGS, claimed
from support.fleet import Shell, manifest
from support.handlers import NoDatabase, handler, runs
from support.processes import query
from support.scheduling import Scheduling

from tenantcron.core.standard_logging import route_standard_logging
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.output import keep_line
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Retry

HANDLERS = """
import logging
from tenantcron import Execution, saga

@saga("nightly")
def nightly(execution: Execution) -> dict[str, int]:
    logging.getLogger("billing").info("read %d meters", 3)
    return {"meters": 3}
"""


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """Configure logging as `tenantcron run` does, and discard the output."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            keep_line,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    root = logging.getLogger()
    before = root.handlers[:], root.level
    route_standard_logging(logging.INFO)
    yield
    root.handlers, root.level = before
    structlog.reset_defaults()


def async_and_plain(act: Callable[[Execution], object]) -> list[HandlerFunction]:
    async def in_the_loop(execution: Execution) -> object:
        return act(execution)

    def in_a_thread(execution: Execution) -> object:
        return act(execution)

    return [in_the_loop, in_a_thread]


def logs_and_returns(_: Execution) -> object:
    structlog.get_logger().info("meters_read", meters=3)
    logging.getLogger("billing").warning("%s is slow", "the meter store")
    return {"meters": 3}


def logs_and_fails(_: Execution) -> object:
    logging.getLogger("billing").info("about to fail")
    raise Retry("the meter store is away")


@pytest.mark.parametrize("function", async_and_plain(logs_and_returns))
async def test_an_attempt_has_the_log_and_the_result_of_its_handler(
    function: HandlerFunction,
) -> None:
    attempt = await runs(function).executor.run(claimed(), SETTINGS)

    assert attempt.log == (
        "info meters_read meters=3\nwarning the meter store is slow logger=billing\n"
    )
    assert attempt.result == '{"meters":3}'


async def test_a_result_that_cannot_be_stored_does_not_fail_the_attempt() -> None:
    attempt = await runs(async_and_plain(lambda _: object())[0]).executor.run(claimed(), SETTINGS)

    assert attempt.succeeded
    assert attempt.result is None
    assert "result_not_kept" in (attempt.log or "")


def executor(function: HandlerFunction) -> Executor:
    return Executor(Handlers.of([handler(function, "nightly")]), lambda _: NoDatabase())


@pytest.mark.parametrize("function", async_and_plain(logs_and_returns))
async def test_a_success_stores_its_log_and_result(
    scheduling: Scheduling, function: HandlerFunction
) -> None:
    await scheduling.schedule("nightly")
    scheduling.clock.advance(hours=1)

    await scheduling.work(scheduling.replica(), executor(function))

    (row,) = await scheduling.rows("execution_attempt", "attempt")
    assert (row["outcome"], row["result"]) == ("SUCCEEDED", {"meters": 3})
    assert str(row["log"]).startswith("info meters_read")


async def test_a_failure_stores_its_log(scheduling: Scheduling) -> None:
    await scheduling.schedule("nightly")
    scheduling.clock.advance(hours=1)

    await scheduling.work(scheduling.replica(), executor(async_and_plain(logs_and_fails)[0]))

    (row,) = await scheduling.rows("execution_attempt", "attempt")
    assert (row["outcome"], row["result"]) == ("FAILED", None)
    assert row["log"] == "info about to fail logger=billing\n"


async def test_a_success_without_output_has_no_output_row(scheduling: Scheduling) -> None:
    await scheduling.schedule("nightly")
    scheduling.clock.advance(hours=1)

    await scheduling.work(scheduling.replica(), executor(async_and_plain(lambda _: None)[0]))

    assert await scheduling.count(state="SUCCEEDED") == 1
    assert await scheduling.rows("execution_attempt", "attempt") == []


def test_standard_logging_in_a_handler_reaches_the_log_and_execution_show(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "acme.yaml").write_text(manifest("acme", {"nightly": "cron: '0 2 * * *'"}))
    (tmp_path / "sagas.py").write_text(HANDLERS)
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("schedule", "trigger", "acme/nightly", "--actor", "maria").code == 0

    process = shell.start("run", "--handlers", "sagas", "--once", PYTHONPATH=str(tmp_path))
    _, log = process.communicate()

    (line,) = (
        line
        for line in map(json.loads, log.splitlines())
        if line["level"] == "info" and line["event"] == "read 3 meters"
    )
    (execution,) = query(database_url, "SELECT * FROM tenantcron.execution")
    assert (line["logger"], line["tenant"], line["saga"]) == ("billing", "acme", "nightly")
    assert line["execution"] == str(execution["id"])
    shown = shell("execution", "show", str(execution["id"]))
    assert '      result: {"meters": 3}\n' in shown.out
    assert "      log:\n        | info read 3 meters logger=billing\n" in shown.out
    shown = json.loads(shell("execution", "show", str(execution["id"]), "--format", "json").out)
    assert shown["execution"]["attempts"][0]["result"] == {"meters": 3}
