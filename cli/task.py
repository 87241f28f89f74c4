"""`tenantcron task`: submits, shows and changes one-time tasks."""

import argparse
import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.tasks import TaskQuery, task_ref
from tenantcron.cli.formats.tasks_text import print_tasks, show_task
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import (
    add_actor,
    add_cluster,
    add_format,
    add_reason,
    future,
    past,
)
from tenantcron.cli.responding import DEFAULT_LIMIT, CommandResult, note_of_limit, resolved, respond
from tenantcron.cli.watching import add_watch
from tenantcron.client.tasks import Submission
from tenantcron.core.durations import parse_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId, tenant_id
from tenantcron.core.values import JsonValue
from tenantcron.core.words import visible
from tenantcron.schedules.settings import MOST_ATTEMPTS
from tenantcron.service.responses.task_shapes import PRIORITIES, TASK_STATES, TaskResponse

_EXAMPLES = """\
examples:
  tenantcron task submit acme send_invoice --payload '{"invoice": 17}'
  tenantcron task submit acme send_reminder --at +2h --key reminder-17
  tenantcron task submit acme export --at 2026-12-01T09:00:00Z --priority high
  tenantcron task submit acme export --payload @export.json    - reads standard input
  tenantcron task submit acme --target '{"celery": {"task": "billing.close"}}'
  tenantcron task list acme --state WAITING --state DEAD
  tenantcron task list --state DEAD --since 1d                 of all tenants
  tenantcron task show acme/019a9c1e-7d1c
  tenantcron task reschedule acme/019a9c1e-7d1c --at +1d
  tenantcron task cancel acme/019a9c1e-7d1c --reason "paid"
"""
_MOST = 10_000
_WHEN = "start at TIME, such as +2h or 18:00"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Submit, show and change tasks: one-time work for a moment."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _configure_submit(actions.add_parser("submit", help="submit a task"))
    _configure_list(actions.add_parser("list", help="list tasks, newest first"))
    for name, (work, summary) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument(
            "task",
            metavar="TENANT/ID",
            type=task_ref,
            help="the task; the first characters of its id are enough",
        )
        if name == "reschedule":
            action.add_argument("--at", metavar="TIME", type=future, required=True, help=_WHEN)
        if name == "cancel":
            add_reason(action)
            action.add_argument("--force", action="store_true", help="also stop a running task")
        if name != "show":
            add_actor(action)
        add_cluster(action)
        add_format(action)
        if name == "show":
            add_watch(action)
        action.set_defaults(run=respond, work=work)


def _configure_submit(parser: argparse.ArgumentParser) -> None:
    parser.description = "Submit a task. Without --at it starts as soon as limits allow."
    parser.add_argument("tenant", metavar="TENANT", type=tenant_id, help="the tenant")
    parser.add_argument("saga", metavar="SAGA", nargs="?", help="the saga to run, or see --target")
    parser.add_argument("--at", metavar="TIME", type=future, help=_WHEN)
    parser.add_argument(
        "--payload", metavar="JSON", type=_payload, default={}, help="its input; @FILE, or - "
    )
    parser.add_argument("--priority", choices=PRIORITIES, help="its priority (medium)")
    parser.add_argument("--key", metavar="KEY", help="submit it only once with this key")
    parser.add_argument("--timeout", metavar="TIME", type=_duration, help="limit each attempt (5m)")
    parser.add_argument(
        "--max-attempts", metavar="N", type=number(1, MOST_ATTEMPTS), help="try N times (3)"
    )
    parser.add_argument(
        "--backoff", metavar="TIME", type=_duration, help="wait before the second attempt (1s)"
    )
    parser.add_argument(
        "--max-backoff", metavar="TIME", type=_duration, help="longest wait between attempts (1m)"
    )
    parser.add_argument("--owner", metavar="USER", help="run it on behalf of user:NAME")
    parser.add_argument("--target", metavar="JSON", type=_payload, help="its target; @FILE, or -")
    add_actor(parser)
    add_cluster(parser)
    add_format(parser)
    parser.set_defaults(run=respond, work=_submit)


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.description = f"List tasks, newest first. States: {', '.join(TASK_STATES)}."
    parser.add_argument(
        "tenant", metavar="TENANT", nargs="?", type=tenant_id, help="only its tasks"
    )
    parser.add_argument("--saga", metavar="S", help="filter by saga")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        type=str.upper,
        choices=TASK_STATES,
        help="filter by state, repeatable",
    )
    parser.add_argument("--since", metavar="TIME", type=past, help="executed at or after TIME")
    parser.add_argument("--until", metavar="TIME", type=future, help="executed before TIME")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=number(1, _MOST),
        default=DEFAULT_LIMIT,
        help="show at most N (20)",
    )
    add_cluster(parser)
    add_format(parser, has_table=True, listing="tasks")
    add_watch(parser)
    parser.set_defaults(run=respond, work=_list)


def _duration(text: str) -> timedelta:
    return parse_duration(text)


def _payload(text: str) -> Mapping[str, JsonValue]:
    """Read a JSON object: given, in a file after @, or on standard input."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        text = _content(Path(text[1:]))
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise UsageError('not a JSON object: write it as \'{"key": "value"}\'')
    return value


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error


async def _submit(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    tenant: TenantId = arguments.tenant
    if arguments.saga is None and arguments.target is None:
        raise UsageError("name the saga, or pass --target")
    submission = Submission(
        saga=arguments.saga,
        payload=arguments.payload,
        execute_at=await resolved(cluster, arguments.at),
        priority=arguments.priority,
        idempotency_key=arguments.key,
        timeout=arguments.timeout,
        max_attempts=arguments.max_attempts,
        backoff=arguments.backoff,
        max_backoff=arguments.max_backoff,
        owner=arguments.owner,
        target=arguments.target,
    )
    made = await cluster.tasks.submit(tenant, submission)

    def show(console: Console) -> None:
        verb = "was already submitted" if made["existed"] else "is submitted"
        _print(console, f"task {made['id']} {verb} and is {made['state']}")
        _print(console, f"`tenantcron task show {tenant}/{made['id']}` shows its state")

    return CommandResult({"task": made}, show)


async def _list(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    since, until = [await resolved(cluster, at) for at in (arguments.since, arguments.until)]
    query = TaskQuery(arguments.tenant, arguments.saga, arguments.state, since, until)
    found = await cluster.tasks.newest(query, arguments.limit)

    def show(console: Console) -> None:
        if found:
            print_tasks(found, console)
        else:
            console.print("no tasks match")

    note = note_of_limit(len(found), arguments.limit)
    return CommandResult({"tasks": found}, show, note=note)


async def _show(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    found = await cluster.tasks.show(arguments.task)

    def show(console: Console) -> None:
        show_task(found, console)

    return CommandResult({"task": found}, show)


async def _cancel(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    found = await cluster.tasks.cancel(arguments.task, arguments.reason, force=arguments.force)
    is_running = found["state"] == "RUNNING"
    return _changed(found, "was asked to stop" if is_running else "is cancelled")


async def _retry(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    return _changed(await cluster.tasks.retry(arguments.task), "is queued for retry")


async def _reschedule(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    execute_at = arguments.at(await cluster.now())
    found = await cluster.tasks.reschedule(arguments.task, execute_at)
    return _changed(found, f"executes at {found['execute_at']}")


_ACTIONS = {
    "show": (_show, "show a task and its attempts"),
    "cancel": (_cancel, "cancel a task that has not started"),
    "retry": (_retry, "run a dead or cancelled task again"),
    "reschedule": (_reschedule, "move a waiting task to another time"),
}


def _changed(found: TaskResponse, what: str) -> CommandResult:
    def show(console: Console) -> None:
        ref = f"{found['tenant']}/{found['id']}"
        _print(console, f"task {ref} {what}")
        _print(console, f"`tenantcron task show {ref}` shows its state")

    return CommandResult({"task": found}, show)


def _print(console: Console, line: str) -> None:
    console.print(Text(visible(line)), soft_wrap=True)
