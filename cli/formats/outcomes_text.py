"""Outcomes of plan and apply for people: + ~ - and a table of the next executions."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenantcron.cli.formats.outcomes import summary
from tenantcron.cli.moments import in_words
from tenantcron.cli.tables import plain_table
from tenantcron.cli.terminal import visible
from tenantcron.core.values import JsonValue
from tenantcron.reconciler.definition import Definition
from tenantcron.reconciler.diff import Action, Change
from tenantcron.reconciler.drift import Drift
from tenantcron.reconciler.outcome import Outcome, Registered, Status, registered
from tenantcron.store.schedule_cursors import Pause

_SIGNS = {
    Action.CREATE: ("+", "green"),
    Action.UPDATE: ("~", "yellow"),
    Action.DELETE: ("-", "red"),
}
_STATUS_STYLES = {Status.FAILED: "bold red", Status.APPLIED: "bold green"}
# Of a large fleet only what needs reading is shown tenant by tenant.
_ALL_IN_DETAIL = 20


def show(outcomes: Sequence[Outcome], now: datetime, console: Console) -> None:
    """Print what became of each tenant, and the totals."""
    for outcome in worth_reading(outcomes):
        _show_tenant(outcome, now, console)
    console.print(_totals(outcomes))


def worth_reading(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Leave out the tenants of a large fleet for which nothing has changed."""
    few = len(outcomes) <= _ALL_IN_DETAIL
    return [one for one in outcomes if few or one.status is not Status.UNCHANGED]


def _show_tenant(outcome: Outcome, now: datetime, console: Console) -> None:
    title = Text(visible(outcome.tenant or str(outcome.file)), "bold")
    title.append(f"  {outcome.status}", _STATUS_STYLES.get(outcome.status, "dim"))
    if outcome.status is Status.APPLIED and outcome.plan:
        title.append(f", version {outcome.plan.version}", "dim")
    console.print(title)
    for line in _details(outcome):
        console.print(line, soft_wrap=True)
    if outcome.plan and outcome.plan.wanted.definitions:
        console.print(next_executions(registered(outcome.plan, now), now))
    console.print()


def _details(outcome: Outcome) -> Iterator[Text]:
    if outcome.refusal:
        yield Text(f"  error[{outcome.refusal.code}] {visible(outcome.refusal.message)}", "red")
    for one in outcome.diagnostics:
        span = one.problem.span
        place = f"{one.file}:{span.line}:{span.column}"
        yield Text(visible(f"  {one.severity}[{one.problem.code}] {place} {one.problem.message}"))
    if outcome.plan:
        for change in outcome.plan.difference.changes:
            yield from _change_lines(change)
    yield from map(_drift_line, outcome.drift)


def _change_lines(change: Change) -> Iterator[Text]:
    sign, style = _SIGNS[change.action]
    definition = change.after or change.before
    if change.action is Action.UPDATE or definition is None:
        yield Text(visible(f"  {sign} {change.schedule}"), style)
        for field in change.fields:
            values = f"{_value(change.before, field)} → {_value(change.after, field)}"
            yield Text(visible(f"      {field}: {values}"))
        return
    timetable = f"{definition.cron_expr} in {definition.timezone}, saga {definition.saga_name}"
    title = visible(f"  {sign} {change.schedule}  ")
    yield Text(title, style).append(visible(timetable), "default")


def _drift_line(one: Drift) -> Text:
    """Say how a live row differs from what was applied, and who did it if that is known."""
    change, touch = one.change, one.touch
    who = f", by {touch.by} ({touch.source}) at {touch.at:%Y-%m-%d %H:%M:%S %Z}" if touch else ""
    what = {
        Action.CREATE: "was added by other means",
        Action.DELETE: "was deleted by other means",
        Action.UPDATE: "was changed: "
        + ", ".join(
            f"{field} {_value(change.before, field)} → {_value(change.after, field)}"
            for field in change.fields
        ),
    }[change.action]
    return Text(visible(f"  ! drift: {change.schedule} {what}{who}"), "magenta")


def _value(definition: Definition | None, field: str) -> str:
    if definition is None:
        return "nothing"
    column, _, key = field.partition(".")
    value: JsonValue = getattr(definition, column)
    if key and isinstance(value, dict):
        value = value.get(key)
    return "nothing" if value is None else str(value)


def next_executions(schedules: Sequence[Registered], now: datetime) -> Table:
    """Return the table of schedules with their next execution, local and in UTC."""
    table = plain_table("  schedule", "next execution", "UTC", "")
    for one in schedules:
        first = one.next_executions[0] if one.next_executions else None
        table.add_row(
            Text(visible(f"  {one.definition.schedule_name}")),
            Text(f"{first:%a %Y-%m-%d %H:%M %Z}" if first else why_none(one)),
            Text(f"{first.astimezone(UTC):%Y-%m-%d %H:%M}" if first else ""),
            Text(_how_soon(one, first, now) if first else "", "dim"),
        )
    return table


def _how_soon(one: Registered, first: datetime, now: datetime) -> str:
    return in_words(first - now) + (f", {_paused(one.pause)}" if one.pause else "")


def why_none(one: Registered) -> str:
    """Say why a schedule has no next execution."""
    if not one.definition.enabled:
        return "disabled"
    if one.pause is not None:
        return _paused(one.pause)
    return visible(one.fault) if one.fault else "no occurrence ahead"


def _paused(pause: Pause) -> str:
    until = f" until {pause.until:%Y-%m-%d %H:%M %Z}" if pause.until else ""
    return visible(f"paused{until} by {pause.by}: {pause.reason}")


def _totals(outcomes: Sequence[Outcome]) -> Text:
    totals = summary(outcomes)
    text = ", ".join(
        f"{totals[key]} {words}"
        for key, words in (
            ("create", "to create"),
            ("update", "to change"),
            ("delete", "to delete"),
            ("unchanged", "unchanged"),
        )
    )
    if any(one.status is Status.APPLIED for one in outcomes):
        text = text.replace("to create", "created").replace("to change", "changed")
        text = text.replace("to delete", "deleted")
    failed = f", {totals['failed']} failed" if totals["failed"] else ""
    noun = "tenant" if totals["tenants"] == 1 else "tenants"
    return Text(f"{totals['tenants']} {noun}: {text}{failed}", "bold")
