"""`tenantcron history`: shows the audit trail of the cluster, a tenant or a schedule."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.platform import RecordQuery
from tenantcron.cli.columns import Column, Fit, TextColumns
from tenantcron.cli.formats.records_text import change_details, change_title
from tenantcron.cli.moments import utc
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import add_cluster, add_format, add_tenant, past, scope
from tenantcron.cli.responding import DEFAULT_LIMIT, CommandResult, note_of_limit, resolved, respond
from tenantcron.cli.terminal import Palette
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import ClusterAuditRecordResponse

_EXAMPLES = """\
examples:
  tenantcron history --since yesterday --until today    what changed yesterday
  tenantcron history acme                               also triggers and retries
  tenantcron history acme/nightly                       changes and pauses
  tenantcron history acme --since 1d --limit 100 --format json
"""
_COLUMNS = (
    Column("when"),
    Column("by", Fit.NAME),
    Column("source", Fit.OPTIONAL),
    Column("change"),
)
_INDENT = " " * 4
_MOST = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Show the audit trail of all tenants, of one, or of a schedule, newest first: who changed "
        "what, with the values before and after. The trail of a schedule has its changes and "
        "pauses; that of its tenant also has the triggers, retries and cancels of executions."
    )
    parser.epilog = _EXAMPLES
    add_tenant(parser, may_name_schedule=True)
    words = "changed at or after TIME, such as 1h or yesterday"
    parser.add_argument("--since", metavar="TIME", type=past, help=words)
    parser.add_argument("--until", metavar="TIME", type=past, help="changed before TIME")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=number(1, _MOST),
        default=DEFAULT_LIMIT,
        help="show at most N (20)",
    )
    add_cluster(parser)
    add_format(parser, has_table=True, listing="audit_records")
    parser.set_defaults(run=respond, work=_work)


async def _work(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    tenant, schedule = scope(arguments)
    since, until = [await resolved(cluster, at) for at in (arguments.since, arguments.until)]
    query = RecordQuery(tenant, schedule, since, until)
    records = await cluster.inspection.records(query, arguments.limit)

    def show(console: Console) -> None:
        if records:
            _print(records, console)
        else:
            console.print("no changes")

    note = note_of_limit(len(records), arguments.limit)
    return CommandResult({"audit_records": records}, show, note=note)


def _print(records: Sequence[ClusterAuditRecordResponse], console: Console) -> None:
    """Print a line for each record, and below it what differs."""
    rows = [_cells(record) for record in records]
    paint = Palette(sys.stdout)
    table = TextColumns.fitting(_COLUMNS, rows, console.width)
    for line in table.head(paint):
        print(line)
    for record, row in zip(records, rows, strict=True):
        for line in table.row(row, paint):
            print(line)
        for detail in change_details(record):
            print(visible(f"{_INDENT}{detail}"))


def _cells(record: ClusterAuditRecordResponse) -> tuple[str, ...]:
    by = record["changed_by"]
    return utc(record["changed_at"]), by["id"], by["source"], change_title(record)
