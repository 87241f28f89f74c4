"""The page of a schedule: its timetable, next executions, history and actions."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.core.errors import TenantcronError
from tenantcron.core.schedule_refs import ScheduleRef, schedule_name
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.scheduler.inspect.schedule_status import ScheduleStatus, read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.schedules.settings import with_defaults
from tenantcron.schedules.timetable import split_bounds, zoned_timetable
from tenantcron.service.lookups import existing_schedule, visible_tenant
from tenantcron.service.problems import invalid
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import ExecutionFilter
from tenantcron.web.clock_changes import ClockChange, clock_changes
from tenantcron.web.differences import formatted
from tenantcron.web.plots import HEIGHT, WIDTH, durations
from tenantcron.web.rendering import rendered, took
from tenantcron.web.routing import reason_of
from tenantcron.web.sessions import ROOT, Visit
from tenantcron.web.words import timetable_in_words

_HISTORY: Final = 60
_TABLE: Final = 20
_NEXT: Final = 8
# The durations of a pause to choose from; the first one has no end.
PAUSES: Final = {
    "": ("until it is resumed", None),
    "1h": ("for 1 hour", timedelta(hours=1)),
    "4h": ("for 4 hours", timedelta(hours=4)),
    "1d": ("for 1 day", timedelta(days=1)),
    "7d": ("for 7 days", timedelta(days=7)),
}
DID: Final = {
    "pause": "Paused. The schedule does not fire during the pause.",
    "resume": "Resumed. Occurrences of the pause are not fired.",
}


async def show(request: Request, visit: Visit) -> Response:
    """Show a schedule."""
    ref = _ref(request, visit)
    async with visit.work.reading.transaction() as connection:
        status = await read_schedule_status(connection, ref, visit.work.settings.lease, None)
        history = await execution_history.newest(
            connection, ExecutionFilter(ref.tenant, ref.schedule), _HISTORY
        )
    ahead = await asyncio.to_thread(_ahead, status)
    return rendered(
        request,
        "schedule.html",
        visit=visit,
        ref=ref,
        schedule=status,
        timetable=split_bounds(status.timetable[0]),
        definition=_definition(status),
        ahead=ahead,
        why=explain(status),
        plot=durations(history),
        history=history[:_TABLE],
        took=took,
        width=WIDTH,
        height=HEIGHT,
        pauses=PAUSES,
        utc=UTC,
        now=status.now,
        did=_done(request, status),
    )


def _done(request: Request, status: ScheduleStatus) -> str | None:
    """Return the confirmation of an action, if the schedule confirms it: the URL may be stale."""
    did = request.query_params.get("did", "")
    return DID.get(did) if (status.pause is not None) == (did == "pause") else None


class _Definition(NamedTuple):
    """The definition of a schedule: its settings as text, and its target and payload as JSON."""

    settings: list[tuple[str, str]]
    target: JsonValue
    payload: JsonValue


def _definition(status: ScheduleStatus) -> _Definition:
    stored = with_defaults(status.definition)
    target, payload = stored.pop("target", None), stored.pop("payload")
    bounds = split_bounds(status.timetable[0])
    period: JsonObject = {"starts": bounds.starts, "ends": bounds.ends}
    shown = _flattened({"enabled": status.enabled} | period | stored)
    return _Definition([(name, formatted(value)) for name, value in shown], target, payload)


def _flattened(settings: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    """Yield the settings; those of a group such as `retry` each on its own."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", part) for key, part in value.items())
        else:
            yield name, value


class _Ahead:
    """The future of a timetable; empty if the timetable cannot be parsed."""

    __slots__ = ("changes", "fault", "limits", "next", "words")

    def __init__(self) -> None:
        self.words: str | None = None
        self.limits = ""
        self.next: tuple[datetime, ...] = ()
        self.changes: list[ClockChange] = []
        self.fault: str | None = None


def _ahead(status: ScheduleStatus) -> _Ahead:
    found, (expression, timezone) = _Ahead(), status.timetable
    try:
        timetable = zoned_timetable(expression, timezone)
        found.words = timetable_in_words(expression)
        found.limits = timetable.limits(status.now)
        found.next = status.next_executions(_NEXT)
        found.changes = clock_changes(timetable, status.now)
    except TenantcronError as error:
        found.fault = str(error)
    return found


async def pause(request: Request, visit: Visit, form: Mapping[str, str]) -> str:
    """Pause a schedule."""
    reason, span = reason_of(form, required=True), form.get("span", "")
    if span not in PAUSES:
        raise invalid("choose the duration of the pause from the list")
    ref = await _existing(request, visit)
    async with visit.work.writing.transaction() as connection:
        lasts = PAUSES[span][1]
        until = None if lasts is None else await database_time(connection) + lasts
        operator = _operator(visit, visit.work.writing.joining(connection))
        await operator.pause(
            ref, reason or "", until, cancel_pending=form.get("cancel_pending") == "yes"
        )
    return f"{address(ref)}?did=pause"


async def resume(request: Request, visit: Visit, form: Mapping[str, str]) -> str:
    """Resume a schedule."""
    reason, ref = reason_of(form, required=False), await _existing(request, visit)
    async with visit.work.writing.transaction() as connection:
        await _operator(visit, visit.work.writing.joining(connection)).resume(ref, reason)
    return f"{address(ref)}?did=resume"


async def trigger(request: Request, visit: Visit, form: Mapping[str, str]) -> str:
    """Run a schedule once, and redirect to the execution."""
    reason, ref = reason_of(form, required=False), await _existing(request, visit)
    async with visit.work.writing.transaction() as connection:
        operator = _operator(visit, visit.work.writing.joining(connection))
        made = await operator.trigger(ref, reason)
    return f"{ROOT}/executions/{made.id}?did=trigger"


def address(ref: ScheduleRef) -> str:
    """Return the URL of the page of a schedule."""
    return f"{ROOT}/tenants/{ref.tenant}/schedules/{ref.schedule}"


def _ref(request: Request, visit: Visit) -> ScheduleRef:
    tenant, schedule = request.path_params["tenant"], request.path_params["schedule"]
    return ScheduleRef(visible_tenant(visit.work, tenant), schedule_name(schedule))


async def _existing(request: Request, visit: Visit) -> ScheduleRef:
    ref = _ref(request, visit)
    return await existing_schedule(visit.work, ref.tenant, ref.schedule)


def _operator(visit: Visit, database: Database) -> Operator:
    work = visit.work
    return Operator(database, work.settings, work.who, bounds=work.bounds)
