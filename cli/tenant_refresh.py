"""`tenantcron tenant refresh`: syncs the tenants with the tenant source.

Exit codes: 0 success, 1 if the source cannot be read, has problems or has held changes, and with
--check also if a tenant differs.
"""

import argparse
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import add_actor, add_cluster, add_format
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.core.tenant_limits import HIGHEST_LIMIT
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.platform_shapes import RefreshResponse, SourceProblemResponse

HELP = "sync the tenants with the platform's registry"
# The text shows at most this many changes; JSON has all of them.
_SHOWN = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Read the tenant source, show the differences and apply them. Works without a running "
        "scheduler."
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="show differences, change nothing")
    choice.add_argument(
        "--detach", action="store_true", help="remove the source; keep its tenants as they are"
    )
    parser.add_argument(
        "--max-missing",
        metavar="N",
        type=number(0, HIGHEST_LIMIT),
        help="suspend up to N tenants that are missing in the source",
    )
    add_actor(parser)
    add_cluster(parser)
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    if arguments.detach:
        return await _detach(cluster)
    found = await cluster.tenants.refresh(arguments.max_missing, check=arguments.check)
    is_wrong = bool(found["problems"] or found["held"] or (arguments.check and _differs(found)))

    def show(console: Console) -> None:
        for line in (*_lines(found), *map(_problem_line, found["problems"]), *_held_lines(found)):
            console.print(line, soft_wrap=True)
        console.print(visible(_summary(found)), soft_wrap=True)

    return CommandResult(found, show, int(is_wrong))


async def _detach(cluster: ClusterAccess) -> CommandResult:
    detached = await cluster.tenants.detach()

    def show(console: Console) -> None:
        released = number_of(detached["released"], "tenant")
        console.print(f"detached; {released} can be edited here again")

    return CommandResult(detached, show)


def _differs(found: RefreshResponse) -> bool:
    return bool(found["new"] or found["changes"])


def _lines(found: RefreshResponse) -> Iterator[Text]:
    for tenant in found["new"][:_SHOWN]:
        yield Text(f"+ {tenant}", "green")
    for change in found["changes"][:_SHOWN]:
        yield Text(f"~ {change['tenant']}", "yellow")
        for column in change["changes"]:
            before, after = column["before"] or "(none)", column["after"] or "(none)"
            yield Text(visible(f"    {column['column']}: {before} -> {after}"))
    hidden = max(len(found["new"]) - _SHOWN, 0) + max(len(found["changes"]) - _SHOWN, 0)
    if hidden:
        yield Text(f"  and {hidden} more; --format json shows all", "dim")


def _held_lines(found: RefreshResponse) -> Iterator[Text]:
    held = found["held"]
    if held:
        number = len(held)
        yield Text("error: ", "bold red").append(
            f"{number_of(number, 'tenant')} are missing or lost a valid status at the same time, "
            f"so they were not changed: {', '.join(held[:10])}{', …' if number > 10 else ''}",
            "default",
        )
        yield Text(f"  = if that is correct, add --max-missing {number}", "dim")


def _problem_line(found: SourceProblemResponse) -> Text:
    title = Text("problem: ", "bold red")
    return title.append(visible(f"{found['tenant'] or '(no id)'}: {found['problem']}"), "default")


def _summary(found: RefreshResponse) -> str:
    source, rows = found["source"], number_of(found["tenants"], "tenant")
    if not _differs(found):
        return f"{source}: {rows}, in sync"
    new, changes = len(found["new"]), len(found["changes"])
    if not found["applied"]:
        return f"{source}: {rows}; {new} to register, {changes} to change"
    return f"{source}: {rows}; {len(found['registered'])} registered, {changes} changed"
