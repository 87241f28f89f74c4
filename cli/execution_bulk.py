"""`tenantcron execution retry` and `cancel` with filters: many executions at once."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Final

from rich.console import Console

from tenantcron.cli.batches import INTERRUPTED, BatchRun, run_batches
from tenantcron.cli.clusters.cluster import BatchRequest, ClusterAccess, ExecutionQuery
from tenantcron.cli.formats.bulk_text import (
    show_execution_preview,
    show_lines,
    show_refused,
    summary_of,
)
from tenantcron.cli.operating import past, schedule_or_id
from tenantcron.cli.responding import CommandResult, resolved
from tenantcron.core.errors import UsageError
from tenantcron.core.execution_ids import SHORTEST_PREFIX
from tenantcron.core.names import tenant_id
from tenantcron.core.schedule_refs import ScheduleRef, schedule_name
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse
from tenantcron.service.responses.shapes import STATES

_LONGEST_ERROR: Final = 500
_FILTERS: Final = ("tenant", "schedule", "saga", "state", "since", "until")
_ALLOWED: Final = {
    "retry": ("DEAD", "CANCELLED", "SKIPPED", "MISSED"),
    "cancel": ("PENDING", "RETRYING", "RUNNING"),
}
_DEFAULT: Final = {"retry": "DEAD", "cancel": "PENDING and RETRYING"}
_DONE: Final = {"retry": "queued for retry:", "cancel": "cancelled"}


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare the execution, or the schedule whose executions are changed."""
    words = f"schedule, or at least {SHORTEST_PREFIX} characters of an execution id"
    parser.add_argument(
        "target", metavar="TENANT/SCHEDULE|ID", type=schedule_or_id, nargs="?", help=words
    )


def add_filters(parser: argparse.ArgumentParser, action: str) -> None:
    """Declare the filters of a bulk operation."""
    filters = parser.add_argument_group("without an ID, all executions that match")
    filters.add_argument("--tenant", metavar="T", type=tenant_id, help="filter by tenant")
    filters.add_argument("--schedule", metavar="S", type=schedule_name, help="filter by schedule")
    filters.add_argument("--saga", metavar="S", type=schedule_name, help="filter by saga")
    add_error(filters)
    filters.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        type=str.upper,
        choices=STATES,
        help=f"filter by state, repeatable ({_DEFAULT[action]})",
    )
    words = "scheduled at or after TIME, such as 2h or 18:00"
    filters.add_argument("--since", metavar="TIME", type=past, help=words)
    filters.add_argument("--until", metavar="TIME", type=past, help="scheduled before TIME")
    words = "show what matches and change nothing"
    filters.add_argument("--dry-run", action="store_true", help=words)


def add_error(parser: argparse._ActionsContainer) -> None:
    """Declare the filter by the reason."""
    words = "filter by a part of the reason or error"
    parser.add_argument("--error", metavar="TEXT", type=_error, help=words)


def _error(text: str) -> str:
    shown = visible(text)
    if not 0 < len(shown) <= _LONGEST_ERROR:
        raise argparse.ArgumentTypeError(f"give 1 to {_LONGEST_ERROR} characters of the reason")
    return shown


def is_bulk(arguments: argparse.Namespace, action: str) -> bool:
    """Whether a command names filters instead of an execution; raise UsageError if both or none."""
    _take_schedule(arguments)
    has_filters = any(getattr(arguments, name) for name in _FILTERS)
    if arguments.target is not None and (has_filters or arguments.error or arguments.dry_run):
        raise UsageError("an ID names one execution: use it without filters and --dry-run")
    if arguments.error and not has_filters:
        raise UsageError("--error narrows other filters: add one, such as --since 12h")
    if arguments.target is None and not has_filters:
        raise UsageError(
            f"name an execution, or filter executions: `tenantcron execution {action} "
            f"--state {_ALLOWED[action][0]} --since 2h --dry-run`"
        )
    _refuse_states(arguments.state, action)
    return has_filters


def _take_schedule(arguments: argparse.Namespace) -> None:
    """Turn TENANT/SCHEDULE into the filters that it is short for."""
    ref = arguments.target
    arguments.names_schedule = isinstance(ref, ScheduleRef)
    if not isinstance(ref, ScheduleRef):
        return
    if arguments.tenant is not None or arguments.schedule is not None:
        raise UsageError(f"{ref} names a schedule: use it without --tenant and --schedule")
    arguments.target, arguments.tenant, arguments.schedule = None, ref.tenant, ref.schedule


def _refuse_states(states: list[str], action: str) -> None:
    allowed = _ALLOWED[action]
    wrong = [state for state in states if state not in allowed]
    if wrong:
        raise UsageError(
            f"--state {wrong[0]}: {action} is for {', '.join(allowed[:-1])} and {allowed[-1]}"
        )


async def retry_many(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """Retry all executions that match."""
    query = await _query(cluster, arguments)
    return await _change(
        arguments, "retry", lambda batch: cluster.executions.retry_batch(query, batch)
    )


async def cancel_many(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """Cancel all executions that match."""
    query, reason = await _query(cluster, arguments), arguments.reason
    return await _change(
        arguments, "cancel", lambda batch: cluster.executions.cancel_batch(query, reason, batch)
    )


async def _query(cluster: ClusterAccess, arguments: argparse.Namespace) -> ExecutionQuery:
    if arguments.names_schedule:
        # Declines an unknown schedule, which would otherwise match nothing.
        named = ExecutionQuery(arguments.tenant, arguments.schedule, (), None, None)
        await cluster.executions.newest(named, 1)
    # Resolved once, so that all batches of a run have the same filters.
    since, until = [await resolved(cluster, at) for at in (arguments.since, arguments.until)]
    return ExecutionQuery(
        arguments.tenant,
        arguments.schedule,
        arguments.state,
        since,
        until,
        arguments.saga,
        arguments.error,
    )


async def _change(
    arguments: argparse.Namespace,
    action: str,
    send: Callable[[BatchRequest], Awaitable[BulkExecutionsResponse]],
) -> CommandResult:
    if arguments.dry_run:
        return _previewed(await send(BatchRequest(dry_run=True)), action)
    return _summarised(await run_batches(send, _DONE[action]), action, arguments.state)


def _previewed(response: BulkExecutionsResponse, action: str) -> CommandResult:
    preview = response["preview"]

    def show(console: Console) -> None:
        if preview is not None:
            show_execution_preview(preview, action, console)

    return CommandResult({"dry_run": True, "preview": preview}, show)


def _summarised(
    run: BatchRun[BulkExecutionsResponse], action: str, states: list[str]
) -> CommandResult:
    refused = [entry for batch in run.batches for entry in batch["refused"]]
    data = {
        "dry_run": False,
        "changed": run.changed,
        "refused": refused,
        "skipped": run.skipped,
        "interrupted": run.interrupted,
    }
    lines = summary_of(
        _DONE[action], run.changed, "execution", run.skipped, interrupted=run.interrupted
    )
    if action == "cancel" and not run.changed and not states:
        lines.append("running executions are not included: add --state RUNNING")
    if refused:
        lines.append(f"refused {number_of(len(refused), 'execution')}:")

    def show(console: Console) -> None:
        show_lines(lines, console)
        show_refused(refused, console)

    code = INTERRUPTED if run.interrupted else int(bool(refused))
    return CommandResult(data, show, code)
