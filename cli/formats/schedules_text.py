"""One schedule with where it stands, for people."""

from collections.abc import Iterator
from datetime import UTC

from rich.console import Console
from rich.text import Text

from tenantcron.answers.schedules import next_or_fault
from tenantcron.cli.formats.executions_text import table
from tenantcron.cli.moments import in_words
from tenantcron.cli.tables import plain_table
from tenantcron.core.values import JsonValue
from tenantcron.core.words import in_utc, visible
from tenantcron.scheduler.situation import Situation


def show_situation(situation: Situation, console: Console) -> None:
    """Print the definition, where the scheduler stands with it, and the last executions."""
    console.print(Text(str(situation.ref), "bold"))
    facts = plain_table("", "")
    facts.show_header = False
    for name, value in (*_facts(situation), *_policies(situation)):
        facts.add_row(f"  {name}", Text(visible(value)))
    console.print(facts)
    if situation.last:
        console.print("\nlast executions")
        console.print(table(situation.last))
    else:
        console.print("\nno executions yet")
    console.print(f"`tenantcron why {situation.ref}` tells why it did not run", soft_wrap=True)


def _facts(situation: Situation) -> Iterator[tuple[str, str]]:
    cron, timezone = situation.timetable
    yield "saga", situation.saga
    yield "timetable", f"{cron} in {timezone}" + ("" if situation.enabled else ", disabled")
    yield from _standing(situation)
    times, fault = next_or_fault(situation)
    if fault:
        yield "fault", fault
    for number, time in enumerate(times):
        ahead = in_words(time - situation.now)
        shown = f"{time:%a %Y-%m-%d %H:%M %Z}  {time.astimezone(UTC):%Y-%m-%d %H:%M}  {ahead}"
        yield "" if number else "next", shown


def _standing(situation: Situation) -> Iterator[tuple[str, str]]:
    cursor = situation.cursor
    if cursor is None:
        yield "scheduler", "has not taken it up yet"
        return
    if situation.is_paused and cursor.paused_at is not None:
        until = f" until {in_utc(cursor.paused_until)}" if cursor.paused_until else ""
        since = in_utc(cursor.paused_at)
        yield "paused", f"{cursor.paused_reason}{until}, since {since} by {cursor.paused_by}"
    yield "last fired", in_utc(cursor.last_run_at) if cursor.last_run_at else "never"
    if cursor.consecutive_failures:
        yield "failures", f"{cursor.consecutive_failures} in a row"


def _policies(situation: Situation) -> Iterator[tuple[str, str]]:
    """Yield what the manifest says beside the timetable, as it is stored."""
    for name, value in situation.definition.items():
        if value not in (None, "", {}, "0s"):
            yield name, _plain(value)


def _plain(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items())
    return str(value)
