"""`tenantcron limits`: shows or sets the concurrency limits of the cluster."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column
from tenantcron.cli.numbers import DEFAULT, limit
from tenantcron.cli.operating import (
    CommandResult,
    add_actor,
    add_format,
    add_reason,
    operator,
    respond,
)
from tenantcron.cli.tables import print_table
from tenantcron.core.errors import UsageError
from tenantcron.core.setting_readers import MOST_CONCURRENT
from tenantcron.core.values import JsonObject
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history, limits
from tenantcron.store.rows.limits import ClusterLimits

_EXAMPLES = """\
examples:
  tenantcron limits
  tenantcron limits --max-concurrent 50 --reason "month's end"
  tenantcron limits --max-concurrent 0 --reason incident       stop starting executions
  tenantcron limits --max-concurrent default                   use the limit of the settings again
"""
_TABLE = tuple(map(Column, ("limit", "in effect", "declared", "set by an operator")))
_COLUMNS = {"max_concurrent": "operator", "max_concurrent_per_tenant": "operator_per_tenant"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Show or set how many executions run at once, over all replicas. A change applies to the "
        "executions that start after it."
    )
    parser.epilog = _EXAMPLES
    for name in _COLUMNS:
        option = f"--{name.replace('_', '-')}"
        words = f"set this limit: 0 to {MOST_CONCURRENT}, or {DEFAULT}"
        read = limit(0, MOST_CONCURRENT)
        parser.add_argument(option, metavar="N", type=read, default=argparse.SUPPRESS, help=words)
    add_reason(parser)
    add_actor(parser)
    add_format(parser, has_table=True)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    given = vars(arguments)
    values = {column: given[name] for name, column in _COLUMNS.items() if name in given}
    if values:
        await operator(database, arguments).set_limits(values, arguments.reason)
    elif arguments.reason is not None:
        raise UsageError("nothing to set: give --max-concurrent or --max-concurrent-per-tenant")
    async with database.transaction() as connection:
        found = await limits.read(connection)
        running = sum((await execution_history.running_by_tenant(connection)).values())

    def show(console: Console) -> None:
        _show(found, running, console)

    return CommandResult(_as_json(found, running), show)


def _as_json(found: ClusterLimits, running: int) -> JsonObject:
    return {
        "max_concurrent": found.overall,
        "max_concurrent_per_tenant": found.per_tenant,
        "declared": {
            "max_concurrent": found.declared,
            "max_concurrent_per_tenant": found.declared_per_tenant,
        },
        "operator": {
            "max_concurrent": found.operator,
            "max_concurrent_per_tenant": found.operator_per_tenant,
        },
        "running": running,
    }


def _show(found: ClusterLimits, running: int, console: Console) -> None:
    rows = (
        ("max concurrent", found.overall, found.declared, found.operator),
        (
            "max concurrent per tenant",
            found.per_tenant,
            found.declared_per_tenant,
            found.operator_per_tenant,
        ),
    )
    cells = [
        (name, str(effective), str(declared), "no" if own is None else str(own))
        for name, effective, declared, own in rows
    ]
    print_table(console, _TABLE, cells)
    console.print(f"running now: {running}")
    if 0 in (found.overall, found.per_tenant):
        message = "with a limit of 0, no execution starts: set it to default to continue"
        console.print(Text(message, "yellow"))
