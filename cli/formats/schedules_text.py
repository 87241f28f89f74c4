"""A schedule as text: its definition, state, last executions and changes."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.executions_text import print_executions
from tenantcron.cli.moments import in_words
from tenantcron.cli.tables import print_table
from tenantcron.core.values import JsonValue
from tenantcron.core.words import in_utc, visible
from tenantcron.scheduler.inspect.schedule_status import ScheduleStatus
from tenantcron.schedules.definition import Definition
from tenantcron.service.responses.schedules import next_or_fault
from tenantcron.store.rows.audit_records import PAUSE, SCHEDULE, AuditRow

_CHANGES = (
    Column("when"),
    Column("what", Fit.PROSE),
    Column("by", Fit.NAME),
    Column("source", Fit.OPTIONAL),
)


def show_schedule_status(status: ScheduleStatus, console: Console) -> None:
    """Print a schedule with its state, its last executions and its last changes."""
    console.print(Text(str(status.ref), "bold"))
    facts = [*_facts(status), *_policies(status)]
    longest = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(Text(visible(f"  {name:<{longest}}  {value}")), soft_wrap=True)
    if status.last:
        console.print("\nlast executions")
        print_executions(status.last, console)
    else:
        console.print("\nno executions yet")
    if status.changes:
        console.print("\nlast changes")
        print_table(console, _CHANGES, [_change_cells(row) for row in status.changes])
    console.print(f"`tenantcron why {status.ref}` explains why it did not run", soft_wrap=True)


def _facts(status: ScheduleStatus) -> Iterator[tuple[str, str]]:
    cron, timezone = status.timetable
    yield "saga", status.saga
    yield "timetable", f"{cron} in {timezone}" + ("" if status.enabled else ", disabled")
    if limits := status.timetable_limits:
        yield "", limits
    yield from _standing(status)
    times, fault = next_or_fault(status)
    if fault:
        yield "fault", fault
    for number, time in enumerate(times):
        ahead = in_words(time - status.now)
        shown = f"{time:%a %Y-%m-%d %H:%M %Z}  {time.astimezone(UTC):%Y-%m-%d %H:%M}  {ahead}"
        yield "" if number else "next", shown


def _standing(status: ScheduleStatus) -> Iterator[tuple[str, str]]:
    cursor = status.cursor
    if cursor is None:
        yield "scheduler", "has not picked it up yet"
        return
    if pause := status.pause:
        until = f" until {in_utc(pause.until)}" if pause.until else ""
        yield "paused", f"{pause.reason}{until}, since {in_utc(pause.at)} by {pause.by}"
    yield "last fired", in_utc(cursor.last_run_at) if cursor.last_run_at else "never"
    if cursor.consecutive_failures:
        yield "failures", f"{cursor.consecutive_failures} in a row"


def _policies(status: ScheduleStatus) -> Iterator[tuple[str, str]]:
    """Yield the other settings of the manifest as they are stored."""
    for name, value in status.definition.items():
        if value not in (None, "", {}, "0s"):
            yield name, _plain(value)


def _plain(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return str(value)


def _change_cells(row: AuditRow) -> tuple[str, ...]:
    return in_utc(row.changed_at), change_in_words(row), row.changed_by, row.actor_source


def change_in_words(row: AuditRow) -> str:
    """Return the operation, with the reason of a pause or the columns that differ."""
    before, after = row.before, row.after
    if not isinstance(after, dict):
        return row.operation
    if row.entity_type == PAUSE:
        return f"{row.operation}: {after.get('reason')}"
    if not isinstance(before, dict):
        return row.operation
    # Of a schedule, compare the columns of the manifest only: a row also has ids and timestamps.
    names = [field.name for field in fields(Definition)] if row.entity_type == SCHEDULE else after
    differ = [name for name in names if before.get(name) != after.get(name)]
    return f"{row.operation}: {', '.join(differ)}" if differ else row.operation
