"""`tenantcron schedule trigger`: runs a schedule once, and waits for the outcome if requested."""

import argparse
import asyncio

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.formats.executions_text import show_details
from tenantcron.cli.responding import CommandResult
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import ExecutionDetailsResponse, TriggeredResponse

_UNFINISHED = ("PENDING", "RUNNING", "RETRYING")
_POLL_SECONDS = 0.5
_NO_SCHEDULER = "no scheduler is running: it starts when one does, with `tenantcron run`"


async def trigger(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """Create an execution; with --wait return its outcome, unless no scheduler would run it."""
    ref: ScheduleRef = arguments.schedule
    made = await cluster.schedules.trigger(ref, arguments.reason)
    execution, is_running = made["execution"], made["scheduler_running"]
    if arguments.wait and is_running:
        return _outcome(made, await _ended(cluster, execution))
    notes = [
        f"execution {execution} of `{ref}` starts as soon as limits and overlap allow",
        *([] if is_running else [_NO_SCHEDULER]),
        f"`tenantcron execution show {execution}` shows its state",
    ]

    def show(console: Console) -> None:
        for note in notes:
            console.print(Text(visible(note)), soft_wrap=True)

    return CommandResult(made, show, int(arguments.wait))


async def _ended(cluster: ClusterAccess, execution: str) -> ExecutionDetailsResponse:
    while True:
        details = await cluster.executions.show(execution)
        if details["state"] not in _UNFINISHED:
            return details
        await asyncio.sleep(_POLL_SECONDS)


def _outcome(made: TriggeredResponse, details: ExecutionDetailsResponse) -> CommandResult:
    def show(console: Console) -> None:
        show_details(details, console)

    is_failed = details["state"] != "SUCCEEDED"
    return CommandResult({**made, "outcome": details}, show, int(is_failed))
