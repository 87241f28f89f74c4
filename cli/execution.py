"""`tenantcron execution`: shows, retries and cancels executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli import execution_bulk
from tenantcron.cli.clusters.cluster import ClusterAccess, ExecutionQuery
from tenantcron.cli.execution_follow import add_follow, follow
from tenantcron.cli.formats.executions_text import print_executions, show_details
from tenantcron.cli.live_log import print_running_log
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import (
    add_actor,
    add_cluster,
    add_format,
    add_reason,
    add_tenant,
    past,
    scope,
)
from tenantcron.cli.responding import DEFAULT_LIMIT, CommandResult, note_of_limit, resolved, respond
from tenantcron.cli.watching import add_watch
from tenantcron.core.errors import UsageError
from tenantcron.core.execution_ids import SHORTEST_PREFIX, id_range
from tenantcron.core.schedule_refs import schedule_name
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.shapes import STATES, ExecutionResponse

_EXAMPLES = """\
examples:
  tenantcron execution list acme --state DEAD --state SKIPPED
  tenantcron execution list acme/nightly --since 1d          also 18:00 or 2026-12-01T00:00:00Z
  tenantcron execution list --since 1h --limit 100 --format json
  tenantcron execution list acme --follow            print executions as they change state
  tenantcron execution list --state RUNNING --watch  redraw the list every two seconds
  tenantcron execution show 3f2a9c1e                 the first 8 characters of an id are enough
  tenantcron execution retry 3f2a9c1e
  tenantcron execution cancel 3f2a9c1e --reason "wrong month"
  tenantcron execution retry acme/nightly --since 1d --dry-run
  tenantcron execution retry --state DEAD --saga invoice --since 2h --dry-run
  tenantcron execution retry --since 12h --error "timed out" --dry-run
  tenantcron execution cancel --tenant acme --reason "wrong month"   all pending ones
"""
_MOST = 10_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Show, retry and cancel executions."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _configure_list(actions.add_parser("list", help="list executions, newest first"))
    for name, (work, summary) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        if name == "show":
            words = f"execution id, or at least its first {SHORTEST_PREFIX} characters"
            action.add_argument("id", metavar="ID", type=_prefix, help=words)
        else:
            execution_bulk.add_target(action)
        if name == "cancel":
            add_reason(action)
        if name != "show":
            add_actor(action)
            execution_bulk.add_filters(action, name)
        add_cluster(action)
        add_format(action)
        if name == "show":
            add_watch(action)
        action.set_defaults(run=respond, work=work)


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.description = f"List executions, newest first. States: {', '.join(STATES)}."
    add_tenant(parser, may_name_schedule=True)
    parser.add_argument("--schedule", metavar="S", type=schedule_name, help="filter by schedule")
    parser.add_argument("--saga", metavar="S", type=schedule_name, help="filter by saga")
    execution_bulk.add_error(parser)
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        type=str.upper,
        choices=STATES,
        help="filter by state, repeatable",
    )
    words = "scheduled at or after TIME, such as 1h or 18:00"
    parser.add_argument("--since", metavar="TIME", type=past, help=words)
    parser.add_argument("--until", metavar="TIME", type=past, help="scheduled before TIME")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=number(1, _MOST),
        default=DEFAULT_LIMIT,
        help="show at most N (20)",
    )
    add_cluster(parser)
    add_format(parser, has_table=True, listing="executions")
    add_watch(parser)
    add_follow(parser)
    parser.set_defaults(run=_run_list, work=_list)


def _run_list(arguments: argparse.Namespace) -> int:
    if not arguments.follow:
        return respond(arguments)
    if arguments.watch is not None:
        raise UsageError("--watch redraws the list and --follow adds to it: choose one")
    return follow(arguments)


def _prefix(text: str) -> str:
    id_range(text)
    return text


async def _list(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    since, until = [await resolved(cluster, at) for at in (arguments.since, arguments.until)]
    query = ExecutionQuery(
        *scope(arguments), arguments.state, since, until, arguments.saga, arguments.error
    )
    found = await cluster.executions.newest(query, arguments.limit)

    def show(console: Console) -> None:
        if found:
            print_executions(found, console)
        else:
            console.print("no executions match")

    note = note_of_limit(len(found), arguments.limit)
    return CommandResult({"executions": found}, show, note=note)


async def _show(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    found = await cluster.executions.show(arguments.id)

    def show(console: Console) -> None:
        show_details(found, console)
        print_running_log(found, console)

    return CommandResult({"execution": found}, show)


async def _retry(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    if execution_bulk.is_bulk(arguments, "retry"):
        return await execution_bulk.retry_many(cluster, arguments)
    found = await cluster.executions.retry(arguments.target)
    more = number_of(found["attempts_allowed"] - found["attempt"], "attempt")
    return _changed(found, f"is queued for retry, with at most {more} left")


async def _cancel(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    if execution_bulk.is_bulk(arguments, "cancel"):
        return await execution_bulk.cancel_many(cluster, arguments)
    found = await cluster.executions.cancel(arguments.target, arguments.reason)
    if found["state"] == "RUNNING":
        return _changed(found, f"was asked to stop; worker {found['worker']} cancels it")
    return _changed(found, "is cancelled")


_ACTIONS = {
    "show": (_show, "show an execution and its attempts"),
    "retry": (_retry, "retry dead, cancelled, skipped or missed executions"),
    "cancel": (_cancel, "cancel pending executions or stop running ones"),
}


def _changed(found: ExecutionResponse, what: str) -> CommandResult:
    def show(console: Console) -> None:
        ref = f"{found['tenant']}/{found['schedule']}"
        console.print(Text(visible(f"execution {found['id']} of {ref} {what}")), soft_wrap=True)
        console.print(f"`tenantcron execution show {found['id']}` shows its state", soft_wrap=True)

    return CommandResult({"execution": found}, show)
