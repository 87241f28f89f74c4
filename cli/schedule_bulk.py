"""`tenantcron schedule pause` and `resume` with --all: many schedules at once."""

import argparse
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from shlex import quote
from typing import Final

from rich.console import Console

from tenantcron.cli.batches import INTERRUPTED, BatchRun, run_batches
from tenantcron.cli.clusters.cluster import BatchRequest, ClusterAccess, NewPause, ScheduleQuery
from tenantcron.cli.formats.bulk_text import show_lines, show_schedule_preview, summary_of
from tenantcron.cli.responding import CommandResult, resolved
from tenantcron.core.errors import UsageError
from tenantcron.core.names import tenant_id
from tenantcron.core.schedule_refs import schedule_name
from tenantcron.core.words import in_utc, number_of
from tenantcron.service.responses.bulk_shapes import BulkSchedulesResponse

_DONE: Final = {"pause": "paused", "resume": "resumed"}


def add_filters(parser: argparse.ArgumentParser, action: str) -> None:
    """Declare the filters of a bulk operation."""
    filters = parser.add_argument_group("instead of a schedule, all that match")
    filters.add_argument("--all", action="store_true", help=f"{action} all schedules that match")
    filters.add_argument("--tenant", metavar="T", type=tenant_id, help="filter by tenant")
    filters.add_argument("--saga", metavar="S", type=schedule_name, help="filter by saga")
    if action == "resume":
        words = "filter by the exact reason of the pause"
        filters.add_argument("--paused-reason", metavar="TEXT", help=words)
    words = "show what matches and change nothing"
    filters.add_argument("--dry-run", action="store_true", help=words)


def is_bulk(arguments: argparse.Namespace) -> bool:
    """Whether a command is for all matching schedules; raise UsageError for a mixture."""
    filters = [arguments.tenant, arguments.saga, getattr(arguments, "paused_reason", None)]
    if not arguments.all:
        if arguments.schedule is None:
            raise UsageError("name TENANT/SCHEDULE, or use --all with --tenant or --saga")
        if any(filters) or arguments.dry_run:
            raise UsageError("filters and --dry-run are for --all")
        return False
    if arguments.schedule is not None:
        raise UsageError("TENANT/SCHEDULE names one schedule: use it without --all")
    if not any(filters):
        raise UsageError("--all needs a filter: --tenant or --saga")
    return True


async def pause_many(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """Pause all schedules that match and are not paused."""
    query = ScheduleQuery(arguments.tenant, arguments.saga)
    until = await resolved(cluster, arguments.until)
    pause = NewPause(arguments.reason, until, arguments.cancel_pending)
    return await _change(
        arguments,
        "pause",
        lambda batch: cluster.schedules.pause_batch(query, pause, batch),
        _pause_lines(arguments, until),
    )


async def resume_many(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """Resume all paused schedules that match."""
    query = ScheduleQuery(arguments.tenant, arguments.saga, arguments.paused_reason)
    reason = arguments.reason
    return await _change(
        arguments, "resume", lambda batch: cluster.schedules.resume_batch(query, reason, batch)
    )


def _pause_lines(arguments: argparse.Namespace, until: datetime | None) -> list[str]:
    """Return until when a bulk pause lasts, and the command that ends it."""
    options = {"--tenant": arguments.tenant, "--saga": arguments.saga}
    filters = [f"{name} {value}" for name, value in options.items() if value]
    resume = " ".join(
        ["tenantcron schedule resume --all", *filters, "--paused-reason", quote(arguments.reason)]
    )
    if until is None:
        return ["they are paused until they are resumed:", f"  {resume}"]
    return [f"they are paused until {in_utc(until)}, or until they are resumed:", f"  {resume}"]


async def _change(
    arguments: argparse.Namespace,
    action: str,
    send: Callable[[BatchRequest], Awaitable[BulkSchedulesResponse]],
    more: Sequence[str] = (),
) -> CommandResult:
    if arguments.dry_run:
        return _previewed(await send(BatchRequest(dry_run=True)), action)
    return _summarised(await run_batches(send, _DONE[action]), action, more)


def _previewed(response: BulkSchedulesResponse, action: str) -> CommandResult:
    preview = response["preview"]

    def show(console: Console) -> None:
        if preview is not None:
            show_schedule_preview(preview, action, console)

    return CommandResult({"dry_run": True, "preview": preview}, show)


def _summarised(
    run: BatchRun[BulkSchedulesResponse], action: str, more: Sequence[str]
) -> CommandResult:
    ended = sum(batch["ended"] for batch in run.batches)
    passed_over = sum(batch["passed_over"] for batch in run.batches)
    data = {
        "dry_run": False,
        "changed": run.changed,
        "skipped": run.skipped,
        "ended": ended,
        "passed_over": passed_over,
        "interrupted": run.interrupted,
    }
    lines = summary_of(
        _DONE[action], run.changed, "schedule", run.skipped, interrupted=run.interrupted
    )
    if ended:
        lines.append(f"{number_of(ended, 'pending execution')} cancelled")
    if passed_over:
        lines.append(f"{number_of(passed_over, 'occurrence')} skipped during the pauses")
    if run.changed:
        lines += more

    def show(console: Console) -> None:
        show_lines(lines, console)

    return CommandResult(data, show, INTERRUPTED if run.interrupted else 0)
