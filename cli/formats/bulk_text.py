"""Bulk operations as text: what a dry run matches, and the summary of a run."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.executions_text import print_executions
from tenantcron.cli.tables import print_table
from tenantcron.core.execution_ids import short_id
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.bulk_shapes import (
    BulkGroupResponse,
    ExecutionPreviewResponse,
    RefusedExecutionResponse,
    SchedulePreviewResponse,
)

_GROUPS_SHOWN: Final = 20
_REFUSED_SHOWN: Final = 20
_SCHEDULES: Final = (
    Column("schedule", Fit.NAME),
    Column("saga", Fit.NAME),
    Column("paused", Fit.PROSE),
)


def show_execution_preview(preview: ExecutionPreviewResponse, verb: str, console: Console) -> None:
    """Print what a bulk operation on executions would change."""
    _show_groups(preview, verb, "execution", console)
    if preview["executions"]:
        _line(console, "the first of them:")
        print_executions(preview["executions"], console)
    _line(console, "nothing was changed: run it without --dry-run")


def show_schedule_preview(preview: SchedulePreviewResponse, verb: str, console: Console) -> None:
    """Print what a bulk operation on schedules would change."""
    _show_groups(preview, verb, "schedule", console)
    if preview["schedules"]:
        _line(console, "the first of them:")
        rows = [
            (
                f"{schedule['tenant']}/{schedule['schedule']}",
                schedule["saga"],
                schedule["paused"]["reason"] or "" if schedule["paused"] else "",
            )
            for schedule in preview["schedules"]
        ]
        print_table(console, _SCHEDULES, rows)
    _line(console, "nothing was changed: run it without --dry-run")


def show_refused(refused: Sequence[RefusedExecutionResponse], console: Console) -> None:
    """Print the first refused executions with the reasons."""
    for entry in refused[:_REFUSED_SHOWN]:
        ref = f"{entry['tenant']}/{entry['schedule']}"
        id_ = short_id(entry["execution"])
        _line(console, f"  refused {id_} of {ref}: {entry['detail']}")
    if len(refused) > _REFUSED_SHOWN:
        _line(console, f"  and {len(refused) - _REFUSED_SHOWN} more; --format json lists all")


def show_lines(lines: Sequence[str], console: Console) -> None:
    """Print lines."""
    for line in lines:
        _line(console, line)


def summary_of(verb: str, changed: int, noun: str, skipped: int, *, interrupted: bool) -> list[str]:
    """Return the first lines of a summary: what changed, and what to do about the rest."""
    lines = [f"{verb} {number_of(changed, noun)}"]
    if skipped:
        changing = number_of(skipped, noun)
        lines.append(f"{changing} changed at the same time: run it again to include them")
    if interrupted:
        lines.append("interrupted: run it again to do the rest")
    return lines


def _show_groups(
    preview: ExecutionPreviewResponse | SchedulePreviewResponse,
    verb: str,
    noun: str,
    console: Console,
) -> None:
    matched, groups = preview["matched"], preview["groups"]
    more = "" if preview["complete"] else "at least "
    _line(console, f"would {verb} {more}{number_of(matched, noun)}")
    if not groups:
        return
    shown = groups[:_GROUPS_SHOWN]
    columns = (Column("tenant", Fit.NAME), Column("saga", Fit.NAME), Column(f"{noun}s"))
    rows = [(group["tenant"], group["saga"], str(group["number"])) for group in shown]
    print_table(console, columns, rows)
    if rest := matched - _sum(shown):
        _line(console, f"and {number_of(rest, noun)} of other tenants and sagas")


def _sum(groups: Sequence[BulkGroupResponse]) -> int:
    return sum(group["number"] for group in groups)


def _line(console: Console, text: str) -> None:
    console.print(Text(visible(text)), soft_wrap=True)
