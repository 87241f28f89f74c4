"""Answers of plan and apply for people: + ~ - and a table of the next executions.

They are made from the JSON answer, so that a server's answer reads as one made here.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tenantcron.cli.columns import lines
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
    TenantAnswer,
)

_SIGNS = {"create": "+", "update": "~", "delete": "-"}
_STATUS_STYLES = {"failed": "error", "applied": "good"}
# Of a large fleet only what needs reading is shown tenant by tenant.
_ALL_IN_DETAIL = 20
_TITLES = ("  schedule", "next execution", "UTC", "")
_HOW_SOON = frozenset({3})


def is_worth_reading(tenant: TenantAnswer, fleet: int) -> bool:
    """Whether a tenant is shown: of a large fleet those are not for which nothing changes."""
    return fleet <= _ALL_IN_DETAIL or tenant["status"] != "unchanged"


def tenant_lines(
    tenant: TenantAnswer, now: datetime, paint: Palette, columns: int
) -> Iterator[str]:
    """Yield what became of one tenant."""
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


def _details(tenant: TenantAnswer, paint: Palette) -> Iterator[str]:
    if refusal := tenant.get("error"):
        yield paint("error", f"  error[{refusal['code']}] {visible(refusal['message'])}")
    for one in tenant["diagnostics"]:
        place = f"{one['file']}:{one['line']}:{one['column']}"
        yield visible(f"  {one['severity']}[{one['code']}] {place} {one['message']}")
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
    """Say how a live row differs from what was applied, and who did it if that is known."""
    touch, name = drift["changed_by"], drift["schedule"]
    who = ""
    if touch is not None:
        at = datetime.fromisoformat(touch["at"]).astimezone(UTC)
        who = f", by {touch['id']} ({touch['source']}) at {at:%Y-%m-%d %H:%M:%S %Z}"
    return visible(f"  ! drift: {name} {_drifted(drift)}{who}")


def _drifted(drift: DriftResponse) -> str:
    if drift["applied"] is None:
        return "was added by other means"
    if drift["live"] is None:
        return "was deleted by other means"
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
    """Yield the table of schedules with their next execution, local and in UTC."""
    rows = [_row(one, now) for one in schedules]
    return lines(_TITLES, rows, paint, columns, dim=_HOW_SOON)


def _row(schedule: ScheduleResponse, now: datetime) -> tuple[str, str, str, str]:
    name, first = f"  {_name(schedule)}", first_execution(schedule)
    if first is None:
        return name, why_none(schedule), "", ""
    local, utc = f"{first:%a %Y-%m-%d %H:%M %Z}", f"{first.astimezone(UTC):%Y-%m-%d %H:%M}"
    return name, local, utc, _how_soon(schedule, first, now)


def _name(schedule: ScheduleResponse) -> str:
    """Name a schedule, with its provider if no manifest declares it."""
    # A server of the previous release does not say.
    provider = schedule.get("provider", MANIFESTS)
    return schedule["name"] if provider == MANIFESTS else f"{schedule['name']} ({provider})"


def first_execution(schedule: ScheduleResponse) -> datetime | None:
    """Return the next execution in the schedule's own time."""
    if not schedule["next_executions"]:
        return None
    first = datetime.fromisoformat(schedule["next_executions"][0])
    try:
        return first.astimezone(zone(schedule["timezone"]))
    except TenantcronError:  # a server that knows more zones than this machine
        return first


def _how_soon(one: ScheduleResponse, first: datetime, now: datetime) -> str:
    return in_words(first - now) + (f", {_paused(one['paused'])}" if one["paused"] else "")


def why_none(one: ScheduleResponse) -> str:
    """Say why a schedule has no next execution."""
    if not one["enabled"]:
        return "disabled"
    if one["paused"] is not None:
        return _paused(one["paused"])
    return visible(one["fault"]) if one["fault"] else "no occurrence ahead"


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
