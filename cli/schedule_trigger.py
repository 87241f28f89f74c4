"""`tenantcron schedule trigger`: runs a schedule once, and waits for the outcome if requested."""

import argparse
import asyncio
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from tenantcron.cli.formats.executions_text import show_details
from tenantcron.cli.operating import CommandResult, operator, settings
from tenantcron.core.words import visible
from tenantcron.scheduler.inspect.schedule_status import ScheduleRef, alive
from tenantcron.scheduler.operate.execution_lookup import ExecutionDetails, execution_details
from tenantcron.scheduler.operate.operator import Triggered
from tenantcron.service.responses.executions import details_as_json
from tenantcron.service.responses.schedules import triggered_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import workers
from tenantcron.store.rows.executions import State

_UNFINISHED = (State.PENDING, State.RUNNING, State.RETRYING)
_POLL_SECONDS = 0.5
_NO_SCHEDULER = "no scheduler is running: it starts when one does, with `tenantcron run`"


async def trigger(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """Create an execution; with --wait return its outcome, unless no scheduler would run it."""
    ref: ScheduleRef = arguments.schedule
    made = await operator(database, arguments).trigger(ref, arguments.reason)
    is_running = await _has_scheduler(database)
    data = {**triggered_as_json(ref, made), "scheduler_running": is_running}
    if arguments.wait and is_running:
        return _outcome(data, await _ended(database, made))
    notes = [
        f"execution {made.id} of `{ref}` starts as soon as limits and overlap allow",
        *([] if is_running else [_NO_SCHEDULER]),
        f"`tenantcron execution show {made.id}` shows its state",
    ]

    def show(console: Console) -> None:
        for note in notes:
            console.print(Text(visible(note)), soft_wrap=True)

    return CommandResult(data, show, int(arguments.wait))


async def _has_scheduler(database: Database) -> bool:
    async with database.transaction() as connection:
        replicas = await workers.list_all(connection)
        return bool(alive(replicas, await database_time(connection), settings().lease))


async def _ended(database: Database, made: Triggered) -> ExecutionDetails:
    while True:
        async with database.transaction() as connection:
            details = await execution_details(connection, str(made.id))
        if details.execution.state not in _UNFINISHED:
            return details
        await asyncio.sleep(_POLL_SECONDS)


def _outcome(data: Mapping[str, object], details: ExecutionDetails) -> CommandResult:
    def show(console: Console) -> None:
        show_details(details, console)

    is_failed = details.execution.state is not State.SUCCEEDED
    return CommandResult({**data, "outcome": details_as_json(details)}, show, int(is_failed))
