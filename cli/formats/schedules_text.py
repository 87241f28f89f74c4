"""A schedule as text: its definition, state, last executions and changes."""

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.executions_text import print_executions
from tenantcron.cli.formats.records_text import change_in_words
from tenantcron.cli.moments import in_words, utc
from tenantcron.cli.tables import print_table
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import visible
from tenantcron.cron.zones import zone
from tenantcron.schedules.pause import pause_text
from tenantcron.schedules.timetable import with_bounds, zoned_timetable
from tenantcron.service.responses.shapes import AuditRecordResponse, ScheduleDetailsResponse

_CHANGES = (
    Column("when"),
    Column("what", Fit.PROSE),
    Column("by", Fit.NAME),
    Column("source", Fit.OPTIONAL),
)


def show_schedule(schedule: ScheduleDetailsResponse, now: datetime, console: Console) -> None:
    """Print a schedule with its state, its last executions and its last changes."""
    ref = f"{schedule['tenant']}/{schedule['name']}"
    console.print(Text(ref, "bold"))
    facts = [*_facts(schedule, now), *_policies(schedule)]
    longest = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.print(Text(visible(f"  {name:<{longest}}  {value}")), soft_wrap=True)
    if schedule["executions"]:
        console.print("\nlast executions")
        print_executions(schedule["executions"], console)
    else:
        console.print("\nno executions yet")
    if schedule["changes"]:
        console.print("\nlast changes")
        print_table(console, _CHANGES, [_change_cells(row) for row in schedule["changes"]])
    console.print(f"`tenantcron why {ref}` explains why it did not run", soft_wrap=True)


def _facts(schedule: ScheduleDetailsResponse, now: datetime) -> Iterator[tuple[str, str]]:
    timezone = schedule["timezone"]
    cron = with_bounds(schedule["cron"], schedule["starts"], schedule["ends"])
    yield "saga", schedule["saga"]
    yield "timetable", f"{cron} in {timezone}" + ("" if schedule["enabled"] else ", disabled")
    if limits := _limits(cron, timezone, now):
        yield "", limits
    yield from _standing(schedule)
    if schedule["fault"]:
        yield "fault", schedule["fault"]
    for number, text in enumerate(schedule["next_executions"]):
        time = datetime.fromisoformat(text).astimezone(zone(timezone))
        ahead = in_words(time - now)
        shown = f"{time:%a %Y-%m-%d %H:%M %Z}  {time.astimezone(UTC):%Y-%m-%d %H:%M}  {ahead}"
        yield "" if number else "next", shown


def _limits(cron: str, timezone: str, now: datetime) -> str:
    """Return what limits the occurrences; empty if nothing does, or for a bad timetable."""
    try:
        return zoned_timetable(cron, timezone).limits(now)
    except TenantcronError:
        return ""


def _standing(schedule: ScheduleDetailsResponse) -> Iterator[tuple[str, str]]:
    cursor, pause = schedule["cursor"], schedule["paused"]
    if cursor is None:
        yield "scheduler", "has not picked it up yet"
        return
    if pause:
        until = f" until {utc(pause['until'])}" if pause["until"] else ""
        yield (
            "paused",
            f"{pause_text(pause['reason'])}{until}, since {utc(pause['at'])} by {pause['by']}",
        )
    yield "last fired", utc(cursor["last_run_at"]) if cursor["last_run_at"] else "never"
    if cursor["consecutive_failures"]:
        yield "failures", f"{cursor['consecutive_failures']} in a row"


def _policies(schedule: ScheduleDetailsResponse) -> Iterator[tuple[str, str]]:
    """Yield the other settings of the manifest as they are stored."""
    for name, value in schedule["definition"].items():
        if value not in (None, "", {}, "0s"):
            yield name, _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return str(value)


def _change_cells(record: AuditRecordResponse) -> tuple[str, ...]:
    by = record["changed_by"]
    return utc(record["changed_at"]), change_in_words(record), by["id"], by["source"]
