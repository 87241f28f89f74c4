"""Results of plan and apply as text: + ~ - and a table of the next executions.

The input is the JSON response, so a result from a server looks like a local one.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tenantcron.cli.columns import Column, Fit, lines
from tenantcron.cli.moments import in_words
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import MANIFESTS
from tenantcron.core.words import number_of, visible
from tenantcron.cron.zones import zone
from tenantcron.service.responses.shapes import (
    ChangeResponse,
    DefinitionResponse,
    DriftResponse,
    PauseResponse,
    ScheduleResponse,
    Summary,
    TenantResultResponse,
)

_SIGNS = {"create": "+", "update": "~", "delete": "-"}
_STATUS_STYLES = {"failed": "error", "applied": "good"}
# In larger fleets, tenants without changes are not shown.
_ALL_IN_DETAIL = 20
_COLUMNS = (
    Column("  schedule", Fit.NAME),
    Column("next execution", Fit.PROSE, least=len("Tue 2026-12-01 02:00 +0530")),
    Column("UTC", Fit.OPTIONAL),
    Column("", Fit.PROSE, style=lambda _: "dim"),
)


def is_worth_reading(tenant: TenantResultResponse, fleet: int) -> bool:
    """Whether to show a tenant: a large fleet hides its unchanged tenants."""
    return is_small(fleet) or tenant["status"] != "unchanged"


def is_small(fleet: int) -> bool:
    """Whether all tenants of a fleet are shown in detail."""
    return fleet <= _ALL_IN_DETAIL


def tenant_lines(
    tenant: TenantResultResponse, now: datetime, paint: Palette, columns: int
) -> Iterator[str]:
    """Yield the result of a tenant."""
    status = tenant["status"]
    title = paint("strong", visible(tenant["tenant"] or str(tenant["file"])))
    title += paint(_STATUS_STYLES.get(status, "dim"), f"  {status}")
    if status == "applied":
        title += paint("dim", f", version {tenant['manifest_version']}")
    yield title
    yield from _details(tenant, paint)
    if tenant["schedules"]:
        yield from schedule_lines(tenant["schedules"], now, paint, columns)
    yield ""


def _details(tenant: TenantResultResponse, paint: Palette) -> Iterator[str]:
    if refusal := tenant.get("error"):
        yield paint("error", f"  error[{refusal['code']}] {visible(refusal['message'])}")
    for found in tenant["diagnostics"]:
        place = f"{found['file']}:{found['line']}:{found['column']}"
        yield visible(f"  {found['severity']}[{found['code']}] {place} {found['message']}")
    for change in tenant["changes"]:
        yield from _change_lines(change, paint)
    for drift in tenant["drift"]:
        yield paint("drift", _drift_line(drift))


def _change_lines(change: ChangeResponse, paint: Palette) -> Iterator[str]:
    action = change["action"]
    definition = change["after"] or change["before"]
    title = paint(action, visible(f"  {_SIGNS[action]} {change['schedule']}"))
    if action == "update" or definition is None:
        yield title
        for field in change["fields"]:
            values = f"{_value(change['before'], field)} → {_value(change['after'], field)}"
            yield visible(f"      {field}: {values}")
        return
    timetable = f"{definition['cron_expr']} in {definition['timezone']}"
    yield title + visible(f"  {timetable}, saga {definition['saga_name']}")


def _drift_line(drift: DriftResponse) -> str:
    """Return how a live row differs from the applied version, with the actor if known."""
    touch, name = drift["changed_by"], drift["schedule"]
    who = ""
    if touch is not None:
        at = datetime.fromisoformat(touch["at"]).astimezone(UTC)
        who = f", by {touch['id']} ({touch['source']}) at {at:%Y-%m-%d %H:%M:%S %Z}"
    return visible(f"  ! drift: {name} {_drifted(drift)}{who}")


def _drifted(drift: DriftResponse) -> str:
    if drift["applied"] is None:
        return "was added outside a manifest"
    if drift["live"] is None:
        return "was deleted outside a manifest"
    return "was changed: " + ", ".join(
        f"{field} {_value(drift['applied'], field)} → {_value(drift['live'], field)}"
        for field in drift["fields"]
    )


def _value(definition: DefinitionResponse | None, field: str) -> str:
    if definition is None:
        return "nothing"
    column, _, key = field.partition(".")
    values: dict[str, object] = dict(definition)
    value = values.get(column)
    if key and isinstance(value, dict):
        value = value.get(key)
    return "nothing" if value is None else str(value)


def schedule_lines(
    schedules: Sequence[ScheduleResponse], now: datetime, paint: Palette, columns: int
) -> Iterator[str]:
    """Yield the table of schedules with their next execution, in local time and UTC."""
    rows = [_row(schedule, now) for schedule in schedules]
    return lines(_COLUMNS, rows, paint, columns)


def _row(schedule: ScheduleResponse, now: datetime) -> tuple[str, str, str, str]:
    name, first = f"  {_name(schedule)}", first_execution(schedule)
    if first is None:
        return name, why_none(schedule), "", ""
    local, utc = f"{first:%a %Y-%m-%d %H:%M %Z}", f"{first.astimezone(UTC):%Y-%m-%d %H:%M}"
    return name, local, utc, _how_soon(schedule, first, now)


def _name(schedule: ScheduleResponse) -> str:
    """Return the name of a schedule, with its provider if no manifest declares it."""
    # A server of the previous release does not send it.
    provider = schedule.get("provider", MANIFESTS)
    return schedule["name"] if provider == MANIFESTS else f"{schedule['name']} ({provider})"


def first_execution(schedule: ScheduleResponse) -> datetime | None:
    """Return the next execution in the schedule's time zone."""
    if not schedule["next_executions"]:
        return None
    first = datetime.fromisoformat(schedule["next_executions"][0])
    try:
        return first.astimezone(zone(schedule["timezone"]))
    except TenantcronError:  # a server that knows more zones than this machine
        return first


def _how_soon(schedule: ScheduleResponse, first: datetime, now: datetime) -> str:
    pause = schedule["paused"]
    return in_words(first - now) + (f", {_paused(pause)}" if pause else "")


def why_none(schedule: ScheduleResponse) -> str:
    """Return why a schedule has no next execution."""
    if not schedule["enabled"]:
        return "disabled"
    if schedule["paused"] is not None:
        return _paused(schedule["paused"])
    return visible(schedule["fault"]) if schedule["fault"] else "no future occurrence"


def _paused(pause: PauseResponse) -> str:
    until = ""
    if pause["until"]:
        ends = datetime.fromisoformat(pause["until"]).astimezone(UTC)
        until = f" until {ends:%Y-%m-%d %H:%M %Z}"
    return visible(f"paused{until} by {pause['by']}: {pause['reason']}")


def totals_line(totals: Summary, *, is_applied: bool) -> str:
    """Return the closing line."""
    words = ("created", "changed", "deleted")
    if not is_applied:
        words = ("to create", "to change", "to delete")
    counts = (totals["create"], totals["update"], totals["delete"])
    text = ", ".join(f"{count} {word}" for count, word in zip(counts, words, strict=True))
    failed = f", {totals['failed']} failed" if totals["failed"] else ""
    tenants = number_of(totals["tenants"], "tenant")
    return f"{tenants}: {text}, {totals['unchanged']} unchanged{failed}"
