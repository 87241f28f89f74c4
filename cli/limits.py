"""`tenantcron limits`: shows or sets the concurrency limits of the cluster."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.columns import Column
from tenantcron.cli.numbers import DEFAULT, limit
from tenantcron.cli.operating import add_actor, add_cluster, add_format, add_reason
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.tables import print_table
from tenantcron.core.errors import UsageError
from tenantcron.core.setting_readers import MOST_CONCURRENT
from tenantcron.service.responses.platform_shapes import LimitsResponse

_EXAMPLES = """\
examples:
  tenantcron limits
  tenantcron limits --max-concurrent 50 --reason "month's end"
  tenantcron limits --max-concurrent 0 --reason incident       stop starting executions
  tenantcron limits --max-concurrent default                   use the limit of the settings again
"""
_NAMES = ("max_concurrent", "max_concurrent_per_tenant")
_TABLE = tuple(map(Column, ("limit", "in effect", "declared", "set by an operator")))


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Show or set how many executions run at once, over all replicas. A change applies to the "
        "executions that start after it."
    )
    parser.epilog = _EXAMPLES
    for name in _NAMES:
        option = f"--{name.replace('_', '-')}"
        words = f"set this limit: 0 to {MOST_CONCURRENT}, or {DEFAULT}"
        read = limit(0, MOST_CONCURRENT)
        parser.add_argument(option, metavar="N", type=read, default=argparse.SUPPRESS, help=words)
    add_reason(parser)
    add_actor(parser)
    add_cluster(parser)
    add_format(parser, has_table=True)
    parser.set_defaults(run=respond, work=_work)


async def _work(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    given = vars(arguments)
    values = {name: given[name] for name in _NAMES if name in given}
    if not values and arguments.reason is not None:
        raise UsageError("nothing to set: give --max-concurrent or --max-concurrent-per-tenant")
    if values:
        shown = await cluster.limits.set(values, arguments.reason)
    else:
        shown = await cluster.limits.read()
    return CommandResult(shown, lambda console: _show(shown, console))


def _show(shown: LimitsResponse, console: Console) -> None:
    effective = (shown["max_concurrent"], shown["max_concurrent_per_tenant"])
    declared, own = shown["declared"], shown["operator"]
    rows = (
        ("max concurrent", effective[0], declared["max_concurrent"], own["max_concurrent"]),
        (
            "max concurrent per tenant",
            effective[1],
            declared["max_concurrent_per_tenant"],
            own["max_concurrent_per_tenant"],
        ),
    )
    cells = [
        (name, str(limit), str(declared), "no" if own is None else str(own))
        for name, limit, declared, own in rows
    ]
    print_table(console, _TABLE, cells)
    console.print(f"running now: {shown['running']}")
    if 0 in effective:
        message = "with a limit of 0, no execution starts: set it to default to continue"
        console.print(Text(message, "yellow"))
