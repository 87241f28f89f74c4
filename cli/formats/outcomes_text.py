"""Results of plan and apply as text: + ~ - and a table of the next executions.

The input is the JSON response, so a result from a server looks like a local one.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from tenantcron.cli.columns import Column, Fit, lines
from tenantcron.cli.formats.change_words import changed_fields, field_changes
from tenantcron.cli.formats.diagnostics_text import diagnostic_lines, excerpt_lines
from tenantcron.cli.moments import in_words
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import MANIFESTS
from tenantcron.core.words import number_of, visible
from tenantcron.cron.zones import zone
from tenantcron.schedules.pause import pause_text
from tenantcron.service.responses.shapes import (
    ChangeResponse,
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

_PAUSES = (
    Column("  schedule", Fit.NAME),
    Column("paused (UTC)"),
    Column("until (UTC)"),
    Column("by", Fit.NAME, least=8),
    Column("reason", Fit.PROSE),
)
# Lines of a table of schedules at a time, with colours and a width.
ScheduleTable = Callable[[Sequence[ScheduleResponse], datetime, Palette, int], Iterator[str]]


def is_worth_reading(tenant: TenantResultResponse, fleet: int) -> bool:
    """Whether to show a tenant: a large fleet hides its unchanged tenants."""
    return is_small(fleet) or tenant["status"] != "unchanged"


def is_small(fleet: int) -> bool:
    """Whether all tenants of a fleet are shown in detail."""
    return fleet <= _ALL_IN_DETAIL


def tenant_lines(
    tenant: TenantResultResponse,
    now: datetime,
    paint: Palette,
    columns: int,
    *,
    has_excerpts: bool,
) -> Iterator[str]:
    """Yield the result of a tenant, with excerpts of its manifest or a line per diagnostic."""
    status = tenant["status"]
    title = paint("strong", visible(tenant["tenant"] or str(tenant["file"])))
    title += paint(_STATUS_STYLES.get(status, "dim"), f"  {status}")
    if status == "applied":
        title += paint("dim", f", version {tenant['manifest_version']}")
    yield title
    yield from _details(tenant, paint, columns if has_excerpts else None)
    if tenant["schedules"]:
        yield from schedule_lines(tenant["schedules"], now, paint, columns)
    yield ""


def _details(tenant: TenantResultResponse, paint: Palette, columns: int | None) -> Iterator[str]:
    if refusal := tenant.get("error"):
        yield paint("error", f"  error[{refusal['code']}] {visible(refusal['message'])}")
    if columns is None:
        yield from diagnostic_lines(tenant["diagnostics"])
    else:
        yield from excerpt_lines(tenant["diagnostics"], paint, columns)
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
        for field in changed_fields(change):
            yield visible(f"      {field}")
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
    changes = field_changes(drift["applied"], drift["live"], drift["fields"], None)
    return "was changed: " + ", ".join(
        f"{field.key} {field.before} → {field.after}" for field in changes
    )


def schedule_lines(
    schedules: Sequence[ScheduleResponse], now: datetime, paint: Palette, columns: int
) -> Iterator[str]:
    """Yield the table of schedules with their next execution, in local time and UTC."""
    rows = [_row(schedule, now) for schedule in schedules]
    return lines(_COLUMNS, rows, paint, columns)


def pause_lines(
    schedules: Sequence[ScheduleResponse], _: datetime, paint: Palette, columns: int
) -> Iterator[str]:
    """Yield the table of paused schedules."""
    rows = [
        _pause_row(schedule, schedule["paused"]) for schedule in schedules if schedule["paused"]
    ]
    return lines(_PAUSES, rows, paint, columns)


def _pause_row(schedule: ScheduleResponse, pause: PauseResponse) -> tuple[str, ...]:
    until = _minute(pause["until"]) if pause["until"] else "resumed"
    by, reason = pause["by"] or "", pause_text(pause["reason"])
    return f"  {_name(schedule)}", _minute(pause["at"]), until, by, reason


def _minute(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M}"


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
    # A pause comes first: a short line still shows it.
    pause = schedule["paused"]
    return (f"{_paused(pause)}, " if pause else "") + in_words(first - now)


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
    return visible(f"paused: {pause_text(pause['reason'])} (by {pause['by']}{until})")


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
