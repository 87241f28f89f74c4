"""`tenantcron execution`: shows, retries and cancels executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.formats.executions_text import show_story, table
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import (
    CommandResult,
    add_actor,
    add_format,
    add_reason,
    operator,
    respond,
    time,
)
from tenantcron.core.words import number_of, visible
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    existing_tenant,
    require_schedule,
    schedule_name,
)
from tenantcron.scheduler.operate.execution_lookup import SHORTEST_PREFIX, id_range, told
from tenantcron.service.responses.executions import as_json, story_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionRow, Filter
from tenantcron.store.rows.executions import State
from tenantcron.tenants.registry import tenant_id

_EXAMPLES = """\
examples:
  tenantcron execution list --tenant acme --state DEAD --state SKIPPED
  tenantcron execution list --since 2026-12-01T00:00:00Z --limit 100 --format json
  tenantcron execution show 3f2a9c1e                 the first 8 characters of an id are enough
  tenantcron execution retry 3f2a9c1e
  tenantcron execution cancel 3f2a9c1e --reason "wrong month"
"""
_MOST = 10_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Show executions, run failed ones again, stop those that run or wait."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _configure_list(actions.add_parser("list", help="list executions, the newest first"))
    for name, (work, summary) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        words = f"its id, or the first {SHORTEST_PREFIX} characters or more"
        action.add_argument("id", metavar="ID", type=_prefix, help=words)
        if name == "cancel":
            add_reason(action)
        if name != "show":
            add_actor(action)
        add_format(action)
        action.set_defaults(run=respond, work=work)


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="T", type=tenant_id, help="of this tenant only")
    parser.add_argument("--schedule", metavar="S", type=schedule_name, help="of this schedule only")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        type=str.upper,
        choices=[state.value for state in State],
        help=f"in this state; may be given several times: {', '.join(State)}",
    )
    parser.add_argument("--since", metavar="TIME", type=time, help="scheduled for then or later")
    parser.add_argument(
        "--limit", metavar="N", type=number(1, _MOST), default=20, help="at most so many (20)"
    )
    add_format(parser)
    parser.set_defaults(run=respond, work=_list)


def _prefix(text: str) -> str:
    id_range(text)
    return text


async def _list(database: Database, arguments: argparse.Namespace) -> CommandResult:
    states = tuple(State(state) for state in arguments.state)
    wanted = Filter(arguments.tenant, arguments.schedule, states, arguments.since)
    async with database.transaction() as connection:
        if wanted.tenant is not None:
            await existing_tenant(connection, wanted.tenant)
        rows = await execution_history.newest(connection, wanted, arguments.limit)
        # A schedule that was deleted still has its history; one that never was is a slip.
        if not rows and wanted.tenant is not None and wanted.schedule is not None:
            await require_schedule(connection, ScheduleRef(wanted.tenant, wanted.schedule))

    def show(console: Console) -> None:
        console.print(table(rows) if rows else "no executions: none was fired yet, or none fits")

    return CommandResult({"executions": [as_json(row) for row in rows]}, show)


async def _show(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        found = await told(connection, arguments.id)

    def show(console: Console) -> None:
        show_story(found, console)

    return CommandResult({"execution": story_as_json(found)}, show)


async def _retry(database: Database, arguments: argparse.Namespace) -> CommandResult:
    row = await operator(database, arguments).retry(arguments.id)
    more = number_of(row.attempts_allowed - row.attempt, "attempt")
    return _changed(row, f"waits again, with at most {more} to come")


async def _cancel(database: Database, arguments: argparse.Namespace) -> CommandResult:
    row = await operator(database, arguments).cancel(arguments.id, arguments.reason)
    if row.state is State.RUNNING:
        return _changed(row, f"was asked to stop; its worker {row.worker_id} ends it")
    return _changed(row, "is cancelled")


_ACTIONS = {
    "show": (_show, "tell the story of an execution, with its attempts"),
    "retry": (_retry, "run an execution again that is dead, cancelled, skipped or missed"),
    "cancel": (_cancel, "end an execution that waits, stop one that runs"),
}


def _changed(row: ExecutionRow, what: str) -> CommandResult:
    def show(console: Console) -> None:
        ref = f"{row.tenant_id}/{row.schedule_name}"
        console.print(Text(visible(f"execution {row.id} of {ref} {what}")), soft_wrap=True)
        console.print(f"follow it with `tenantcron execution show {row.id}`", soft_wrap=True)

    return CommandResult({"execution": as_json(row)}, show)
