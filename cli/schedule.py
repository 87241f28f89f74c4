"""`tenantcron schedule`: shows, pauses, resumes and triggers schedules."""

import argparse
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from tenantcron.cli import schedule_list, schedule_trigger
from tenantcron.cli.formats.schedules_text import show_schedule_status
from tenantcron.cli.operating import (
    CommandResult,
    add_actor,
    add_format,
    add_reason,
    add_tenant,
    future,
    operator,
    resolved,
    respond,
    settings,
)
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    read_schedule_status,
    schedule_ref,
)
from tenantcron.scheduler.operate.operator import Paused
from tenantcron.service.responses.schedules import (
    paused_as_json,
    resumed_as_json,
    schedule_status_as_json,
)
from tenantcron.store.connection.engine import Database

_EXAMPLES = """\
examples:
  tenantcron schedule list acme
  tenantcron schedule list --format json                    all tenants
  tenantcron schedule show acme/nightly
  tenantcron schedule pause acme/nightly --reason "partner is down" --until +2h
  tenantcron schedule resume acme/nightly
  tenantcron schedule trigger acme/nightly --reason "rerun after the fix" --wait
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        "Show, pause, resume and trigger the schedules of tenants. Every change is recorded in "
        "the audit."
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list schedules with their next executions")
    add_tenant(listing)
    add_format(listing, has_table=True)
    listing.set_defaults(run=schedule_list.run)
    for name, (work, summary) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        words = "tenant id and schedule name"
        action.add_argument("schedule", metavar="TENANT/SCHEDULE", type=schedule_ref, help=words)
        if name != "show":
            add_reason(action, required=name == "pause")
            add_actor(action)
        if name == "pause":
            words = "end the pause at TIME: 2h, 18:00, … (until resumed)"
            action.add_argument("--until", metavar="TIME", type=future, help=words)
            words = "cancel pending executions, except manually triggered ones"
            action.add_argument("--cancel-pending", action="store_true", help=words)
        if name == "trigger":
            words = "wait for the end; show the outcome and its log"
            action.add_argument("--wait", action="store_true", help=words)
        add_format(action, has_table=name == "show")
        action.set_defaults(run=respond, work=work)


async def _show(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        found = await read_schedule_status(connection, arguments.schedule, settings().lease, None)

    def show(console: Console) -> None:
        show_schedule_status(found, console)

    return CommandResult(schedule_status_as_json(found), show)


async def _pause(database: Database, arguments: argparse.Namespace) -> CommandResult:
    ref: ScheduleRef = arguments.schedule
    until = await resolved(database, arguments.until)
    paused = await operator(database, arguments).pause(
        ref, arguments.reason, until, cancel_pending=arguments.cancel_pending
    )
    ends = f" until {in_utc(until)}" if until else ""
    return _changed(
        paused_as_json(ref, paused),
        f"`{ref}` is paused{ends}: {paused.cursor.paused_reason}",
        *_pending_executions(paused),
        f"`tenantcron schedule resume {ref}` lifts the pause",
    )


def _pending_executions(paused: Paused) -> Iterator[str]:
    if paused.ended:
        yield f"{number_of(paused.ended, 'pending execution')} cancelled"
    if paused.pending:
        yield f"{number_of(paused.pending, 'pending execution')} will still run"


async def _resume(database: Database, arguments: argparse.Namespace) -> CommandResult:
    ref: ScheduleRef = arguments.schedule
    resumed = await operator(database, arguments).resume(ref, arguments.reason)
    after = resumed.cursor.next_run_at
    upcoming = f"it fires next at {in_utc(after)}" if after else "it has no future occurrence"
    skipped = f"{number_of(resumed.skipped_occurrences, 'occurrence')} skipped during the pause"
    return _changed(
        resumed_as_json(ref, resumed),
        f"`{ref}` is resumed: {upcoming}",
        *([skipped] if resumed.skipped_occurrences else []),
        f"`tenantcron schedule trigger {ref}` runs it now",
    )


_ACTIONS = {
    "show": (_show, "show a schedule, its state and its last executions"),
    "pause": (_pause, "stop a schedule from firing"),
    "resume": (_resume, "resume a paused schedule without catching up"),
    "trigger": (schedule_trigger.trigger, "run a schedule once, now"),
}


def _changed(data: Mapping[str, object], *lines: str) -> CommandResult:
    def show(console: Console) -> None:
        for line in lines:
            console.print(Text(visible(line)), soft_wrap=True)

    return CommandResult(data, show)
