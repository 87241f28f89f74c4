"""`tenantcron why`: explains why a schedule did not run."""

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tenantcron.cli.operating import CommandResult, add_format, respond, settings
from tenantcron.core.words import visible
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    UnknownError,
    read_schedule_status,
    schedule_ref,
)
from tenantcron.scheduler.inspect.why import Reason, explain
from tenantcron.service.responses.why import why_as_json
from tenantcron.store.connection.engine import Database

_EXAMPLES = """\
examples:
  tenantcron why acme/nightly
  tenantcron why acme/nightly --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Explain why a schedule did not run. The main reason comes first."
    parser.epilog = _EXAMPLES
    words = "tenant id and schedule name"
    parser.add_argument("schedule", metavar="TENANT/SCHEDULE", type=schedule_ref, help=words)
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    ref: ScheduleRef = arguments.schedule
    try:
        async with database.transaction() as connection:
            status = await read_schedule_status(connection, ref, settings().lease, None)
    except UnknownError as error:
        message, _, hint = str(error).partition(": ")
        return _result(ref, [Reason("unknown", f"{message}.", hint)], code=1)
    return _result(ref, explain(status), code=0)


def _result(ref: ScheduleRef, reasons: Sequence[Reason], code: int) -> CommandResult:
    def show(console: Console) -> None:
        first, *others = reasons
        console.print(Text(visible(first.message), "bold"), soft_wrap=True)
        console.print(Text(visible(f"  = {first.hint}"), "dim"), soft_wrap=True)
        for reason in others:
            console.print(Text(visible(f"- {reason.message}")), soft_wrap=True)
            console.print(Text(visible(f"  = {reason.hint}"), "dim"), soft_wrap=True)

    return CommandResult(why_as_json(ref, reasons), show, code)
