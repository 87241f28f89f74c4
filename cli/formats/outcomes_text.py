"""Answers of plan and apply for people: + ~ - and a table of the next executions.

They are made from the JSON answer, so that a server's answer reads as one made here.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenantcron.answers.shapes import (
    OutcomesAnswer,
    TenantAnswer,
    ToldChange,
    ToldDefinition,
    ToldDrift,
    ToldPause,
    ToldSchedule,
)
from tenantcron.cli.moments import in_words
from tenantcron.cli.tables import plain_table
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import number_of, visible
from tenantcron.cron.zones import zone

_SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
_STATUS_STYLES = {"failed": "bold red", "applied": "bold green"}
# Of a large fleet only what needs reading is shown tenant by tenant.
_ALL_IN_DETAIL = 20


def show(answer: OutcomesAnswer, console: Console) -> None:
    """Print what became of each tenant, and the totals."""
    now = datetime.fromisoformat(answer["at"])
    for tenant in worth_reading(answer["tenants"]):
        _show_tenant(tenant, now, console)
    console.print(_totals(answer))


def worth_reading(tenants: Sequence[TenantAnswer]) -> list[TenantAnswer]:
    """Leave out the tenants of a large fleet for which nothing has changed."""
    few = len(tenants) <= _ALL_IN_DETAIL
    return [one for one in tenants if few or one["status"] != "unchanged"]


def _show_tenant(tenant: TenantAnswer, now: datetime, console: Console) -> None:
    title = Text(visible(tenant["tenant"] or str(tenant["file"])), "bold")
    title.append(f"  {tenant['status']}", _STATUS_STYLES.get(tenant["status"], "dim"))
    if tenant["status"] == "applied":
        title.append(f", version {tenant['manifest_version']}", "dim")
    console.print(title)
    for line in _details(tenant):
        console.print(line, soft_wrap=True)
    if tenant["schedules"]:
        console.print(next_executions(tenant["schedules"], now))
    console.print()


def _details(tenant: TenantAnswer) -> Iterator[Text]:
    if refusal := tenant.get("error"):
        yield Text(f"  error[{refusal['code']}] {visible(refusal['message'])}", "red")
    for one in tenant["diagnostics"]:
        place = f"{one['file']}:{one['line']}:{one['column']}"
        yield Text(visible(f"  {one['severity']}[{one['code']}] {place} {one['message']}"))
    for change in tenant["changes"]:
        yield from _change_lines(change)
    yield from map(_drift_line, tenant["drift"])


def _change_lines(change: ToldChange) -> Iterator[Text]:
    sign, style = _SIGNS[change["action"]]
    definition = change["after"] or change["before"]
    if change["action"] == "update" or definition is None:
        yield Text(visible(f"  {sign} {change['schedule']}"), style)
        for field in change["fields"]:
            values = f"{_value(change['before'], field)} → {_value(change['after'], field)}"
            yield Text(visible(f"      {field}: {values}"))
        return
    timetable = (
        f"{definition['cron_expr']} in {definition['timezone']}, saga {definition['saga_name']}"
    )
    title = visible(f"  {sign} {change['schedule']}  ")
    yield Text(title, style).append(visible(timetable), "default")


def _drift_line(drift: ToldDrift) -> Text:
    """Say how a live row differs from what was applied, and who did it if that is known."""
    touch, name = drift["changed_by"], drift["schedule"]
    who = ""
    if touch is not None:
        at = datetime.fromisoformat(touch["at"]).astimezone(UTC)
        who = f", by {touch['id']} ({touch['source']}) at {at:%Y-%m-%d %H:%M:%S %Z}"
    return Text(visible(f"  ! drift: {name} {_drifted(drift)}{who}"), "magenta")


def _drifted(drift: ToldDrift) -> str:
    if drift["applied"] is None:
        return "was added by other means"
    if drift["live"] is None:
        return "was deleted by other means"
    return "was changed: " + ", ".join(
        f"{field} {_value(drift['applied'], field)} → {_value(drift['live'], field)}"
        for field in drift["fields"]
    )


def _value(definition: ToldDefinition | None, field: str) -> str:
    if definition is None:
        return "nothing"
    column, _, key = field.partition(".")
    values: dict[str, object] = dict(definition)
    value = values.get(column)
    if key and isinstance(value, dict):
        value = value.get(key)
    return "nothing" if value is None else str(value)


def next_executions(schedules: Sequence[ToldSchedule], now: datetime) -> Table:
    """Return the table of schedules with their next execution, local and in UTC."""
    table = plain_table("  schedule", "next execution", "UTC", "")
    for one in schedules:
        first = first_execution(one)
        table.add_row(
            Text(visible(f"  {one['name']}")),
            Text(f"{first:%a %Y-%m-%d %H:%M %Z}" if first else why_none(one)),
            Text(f"{first.astimezone(UTC):%Y-%m-%d %H:%M}" if first else ""),
            Text(_how_soon(one, first, now) if first else "", "dim"),
        )
    return table


def first_execution(schedule: ToldSchedule) -> datetime | None:
    """Return the next execution in the schedule's own time."""
    if not schedule["next_executions"]:
        return None
    first = datetime.fromisoformat(schedule["next_executions"][0])
    try:
        return first.astimezone(zone(schedule["timezone"]))
    except TenantcronError:  # a server that knows more zones than this machine
        return first


def _how_soon(one: ToldSchedule, first: datetime, now: datetime) -> str:
    return in_words(first - now) + (f", {_paused(one['paused'])}" if one["paused"] else "")


def why_none(one: ToldSchedule) -> str:
    """Say why a schedule has no next execution."""
    if not one["enabled"]:
        return "disabled"
    if one["paused"] is not None:
        return _paused(one["paused"])
    return visible(one["fault"]) if one["fault"] else "no occurrence ahead"


def _paused(pause: ToldPause) -> str:
    until = ""
    if pause["until"]:
        ends = datetime.fromisoformat(pause["until"]).astimezone(UTC)
        until = f" until {ends:%Y-%m-%d %H:%M %Z}"
    return visible(f"paused{until} by {pause['by']}: {pause['reason']}")


def _totals(answer: OutcomesAnswer) -> Text:
    totals = answer["summary"]
    done = any(one["status"] == "applied" for one in answer["tenants"])
    words = ("created", "changed", "deleted") if done else ("to create", "to change", "to delete")
    counts = (totals["create"], totals["update"], totals["delete"])
    text = ", ".join(f"{count} {word}" for count, word in zip(counts, words, strict=True))
    failed = f", {totals['failed']} failed" if totals["failed"] else ""
    tenants = number_of(totals["tenants"], "tenant")
    line = f"{tenants}: {text}, {totals['unchanged']} unchanged{failed}"
    return Text(line, "bold")
