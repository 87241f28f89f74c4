"""`tenantcron audit`: compares expected occurrences with recorded executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.moments import utc
from tenantcron.cli.operating import add_cluster, add_format, add_tenant, past, scope
from tenantcron.cli.responding import CommandResult, resolved, respond
from tenantcron.core.errors import UsageError
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.platform_shapes import AuditResponse

_EXAMPLES = """\
examples:
  tenantcron audit                                     all tenants, the entire history
  tenantcron audit acme --since 7d
  tenantcron audit --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Compute the occurrences that every schedule should have fired and compare them with the "
        "recorded executions; compare the scheduler's cursors with the schedules. Changes "
        "nothing. Exits with 1 if an occurrence is lost or duplicated or a cursor differs."
    )
    parser.epilog = _EXAMPLES
    add_tenant(parser)
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=past,
        help="check from TIME on, such as 1h or 18:00 (default: all)",
    )
    add_cluster(parser)
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    tenant, schedule = scope(arguments)
    if schedule is not None:
        raise UsageError(f"an audit covers all schedules of a tenant: use `audit {tenant}`")
    since = await resolved(cluster, arguments.since)
    audited = await cluster.inspection.audit(tenant, since)

    def show(console: Console) -> None:
        _show(audited, console)

    return CommandResult(audited, show, int(bool(audited["findings"])))


def _show(audited: AuditResponse, console: Console) -> None:
    for finding in audited["findings"]:
        tenant, schedule = finding["tenant"], finding["schedule"]
        place = f"{tenant}/{schedule}" if schedule else tenant
        title = Text(f"error[{finding['code']}] ", "bold red")
        message = visible(f"{place}: {finding['message']}")
        console.print(title.append(message, "default"), soft_wrap=True)
        console.print(Text(visible(f"  = {finding['hint']}"), "dim"), soft_wrap=True)
    checked = ", ".join(
        (
            number_of(audited["tenants"], "tenant"),
            number_of(audited["schedules"], "schedule"),
            number_of(audited["occurrences"], "occurrence"),
        )
    )
    number = len(audited["findings"])
    found = number_of(number, "finding") if number else "no findings"
    console.print(f"{checked} since {utc(audited['since'])}: {found}")
