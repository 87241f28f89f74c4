"""`tenantcron schedule`: shows, pauses, resumes and triggers schedules."""

import argparse
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from tenantcron.cli import schedule_bulk, schedule_list, schedule_trigger
from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.formats.schedules_text import show_schedule
from tenantcron.cli.moments import utc
from tenantcron.cli.operating import (
    add_actor,
    add_cluster,
    add_format,
    add_reason,
    future,
)
from tenantcron.cli.responding import CommandResult, resolved, respond
from tenantcron.cli.watching import add_watch
from tenantcron.core.schedule_refs import ScheduleRef, schedule_ref
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.service.responses.shapes import PausedResponse

_EXAMPLES = """\
examples:
  tenantcron schedule list acme
  tenantcron schedule list --until 2h         what fires in the next two hours
  tenantcron schedule list --paused           what is paused, and why
  tenantcron schedule show acme/nightly
  tenantcron schedule pause acme/nightly --reason "partner is down" --until monday
  tenantcron schedule resume acme/nightly
  tenantcron schedule pause --all --tenant acme --reason "migration" --dry-run
  tenantcron schedule resume --all --tenant acme --paused-reason "migration"
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
    schedule_list.configure(listing)
    for name, (work, summary) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        words = "tenant id and schedule name"
        required = "?" if name in ("pause", "resume") else None
        action.add_argument(
            "schedule", metavar="TENANT/SCHEDULE", type=schedule_ref, nargs=required, help=words
        )
        if name != "show":
            add_reason(action, required=name == "pause")
            add_actor(action)
        if name == "pause":
            words = "end the pause at TIME (UTC): 2h, monday, … (until resumed)"
            action.add_argument("--until", metavar="TIME", type=future, help=words)
            words = "cancel pending executions, except manually triggered ones"
            action.add_argument("--cancel-pending", action="store_true", help=words)
        if name in ("pause", "resume"):
            schedule_bulk.add_filters(action, name)
        if name == "trigger":
            words = "wait for the end; show the outcome and its log"
            action.add_argument("--wait", action="store_true", help=words)
        add_cluster(action)
        add_format(action, has_table=name == "show")
        if name == "show":
            add_watch(action)
        action.set_defaults(run=respond, work=work)


async def _show(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    found = await cluster.schedules.show(arguments.schedule)
    now = await cluster.now()

    def show(console: Console) -> None:
        show_schedule(found, now, console)

    return CommandResult(found, show)


async def _pause(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    if schedule_bulk.is_bulk(arguments):
        return await schedule_bulk.pause_many(cluster, arguments)
    ref: ScheduleRef = arguments.schedule
    until = await resolved(cluster, arguments.until)
    paused = await cluster.schedules.pause(
        ref, arguments.reason, until, cancel_pending=arguments.cancel_pending
    )
    ends = f" until {in_utc(until)}" if until else ""
    reason = paused["paused"]["reason"] if paused["paused"] else arguments.reason
    return _changed(
        paused,
        f"`{ref}` is paused{ends}: {reason}",
        *_pending_executions(paused),
        f"`tenantcron schedule resume {ref}` lifts the pause",
    )


def _pending_executions(paused: PausedResponse) -> Iterator[str]:
    if paused["ended"]:
        yield f"{number_of(paused['ended'], 'pending execution')} cancelled"
    if paused["pending"]:
        yield f"{number_of(paused['pending'], 'pending execution')} will still run"


async def _resume(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    if schedule_bulk.is_bulk(arguments):
        return await schedule_bulk.resume_many(cluster, arguments)
    ref: ScheduleRef = arguments.schedule
    resumed = await cluster.schedules.resume(ref, arguments.reason)
    after, skipped = resumed["next_run_at"], resumed["passed_over"]
    upcoming = f"it fires next at {utc(after)}" if after else "it has no future occurrence"
    return _changed(
        resumed,
        f"`{ref}` is resumed: {upcoming}",
        *([f"{number_of(skipped, 'occurrence')} skipped during the pause"] if skipped else []),
        f"`tenantcron schedule trigger {ref}` runs it now",
    )


_ACTIONS = {
    "show": (_show, "show a schedule, its state and its last executions"),
    "pause": (_pause, "stop schedules from firing"),
    "resume": (_resume, "resume paused schedules without catching up"),
    "trigger": (schedule_trigger.trigger, "run a schedule once, now"),
}


def _changed(data: Mapping[str, object], *lines: str) -> CommandResult:
    def show(console: Console) -> None:
        for line in lines:
            console.print(Text(visible(line)), soft_wrap=True)

    return CommandResult(data, show)
