"""`tenantcron execution`: shows, retries and cancels executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.formats.executions_text import print_executions, show_details
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import (
    CommandResult,
    add_actor,
    add_format,
    add_reason,
    add_tenant,
    operator,
    past,
    resolved,
    respond,
    scope,
)
from tenantcron.core.words import number_of, visible
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    existing_tenant,
    require_schedule,
    schedule_name,
)
from tenantcron.scheduler.operate.execution_lookup import (
    SHORTEST_PREFIX,
    execution_details,
    id_range,
)
from tenantcron.service.responses.executions import as_json, details_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionFilter, ExecutionRow
from tenantcron.store.rows.executions import State

_EXAMPLES = """\
examples:
  tenantcron execution list acme --state DEAD --state SKIPPED
  tenantcron execution list acme/nightly --since 1d          also 18:00 or 2026-12-01T00:00:00Z
  tenantcron execution list --since 1h --limit 100 --format json
  tenantcron execution show 3f2a9c1e                 the first 8 characters of an id are enough
  tenantcron execution retry 3f2a9c1e
  tenantcron execution cancel 3f2a9c1e --reason "wrong month"
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
        words = f"execution id, or at least its first {SHORTEST_PREFIX} characters"
        action.add_argument("id", metavar="ID", type=_prefix, help=words)
        if name == "cancel":
            add_reason(action)
        if name != "show":
            add_actor(action)
        add_format(action)
        action.set_defaults(run=respond, work=work)


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.description = f"List executions, newest first. States: {', '.join(State)}."
    add_tenant(parser, may_name_schedule=True)
    parser.add_argument("--schedule", metavar="S", type=schedule_name, help="filter by schedule")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        type=str.upper,
        choices=[state.value for state in State],
        help="filter by state, repeatable",
    )
    words = "scheduled at or after TIME, such as 1h or 18:00"
    parser.add_argument("--since", metavar="TIME", type=past, help=words)
    parser.add_argument("--until", metavar="TIME", type=past, help="scheduled before TIME")
    parser.add_argument(
        "--limit", metavar="N", type=number(1, _MOST), default=20, help="show at most N (20)"
    )
    add_format(parser, has_table=True)
    parser.set_defaults(run=respond, work=_list)


def _prefix(text: str) -> str:
    id_range(text)
    return text


async def _list(database: Database, arguments: argparse.Namespace) -> CommandResult:
    states = tuple(State(state) for state in arguments.state)
    since, until = [await resolved(database, at) for at in (arguments.since, arguments.until)]
    wanted = ExecutionFilter(*scope(arguments), states, since, until)
    async with database.transaction() as connection:
        if wanted.tenant is not None:
            await existing_tenant(connection, wanted.tenant)
        rows = await execution_history.newest(connection, wanted, arguments.limit)
        # A deleted schedule still has its history; a schedule that never existed is a typo.
        if not rows and wanted.tenant is not None and wanted.schedule is not None:
            await require_schedule(connection, ScheduleRef(wanted.tenant, wanted.schedule))

    def show(console: Console) -> None:
        if rows:
            print_executions(rows, console)
        else:
            console.print("no executions match")

    return CommandResult({"executions": [as_json(row) for row in rows]}, show)


async def _show(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        found = await execution_details(connection, arguments.id)

    def show(console: Console) -> None:
        show_details(found, console)

    return CommandResult({"execution": details_as_json(found)}, show)


async def _retry(database: Database, arguments: argparse.Namespace) -> CommandResult:
    row = await operator(database, arguments).retry(arguments.id)
    more = number_of(row.attempts_allowed - row.attempt, "attempt")
    return _changed(row, f"is queued for retry, with at most {more} left")


async def _cancel(database: Database, arguments: argparse.Namespace) -> CommandResult:
    row = await operator(database, arguments).cancel(arguments.id, arguments.reason)
    if row.state is State.RUNNING:
        return _changed(row, f"was asked to stop; worker {row.worker_id} cancels it")
    return _changed(row, "is cancelled")


_ACTIONS = {
    "show": (_show, "show an execution and its attempts"),
    "retry": (_retry, "retry a dead, cancelled, skipped or missed execution"),
    "cancel": (_cancel, "cancel a pending execution or stop a running one"),
}


def _changed(row: ExecutionRow, what: str) -> CommandResult:
    def show(console: Console) -> None:
        ref = f"{row.tenant_id}/{row.schedule_name}"
        console.print(Text(visible(f"execution {row.id} of {ref} {what}")), soft_wrap=True)
        console.print(f"`tenantcron execution show {row.id}` shows its state", soft_wrap=True)

    return CommandResult({"execution": as_json(row)}, show)
