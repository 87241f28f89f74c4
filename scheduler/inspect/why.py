"""Why: explain why a schedule has not run, with the most important reason first.

`explain` checks the tenant, then the schedule, then its pending and running executions, and finally
how the last execution ended and when the next one is due. The first reason is the answer. Values
in, values out; `schedule_status` reads them.
"""

from collections.abc import Iterator

from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.cluster_status import OVERDUE
from tenantcron.scheduler.inspect.schedule_status import ScheduleStatus
from tenantcron.scheduler.inspect.why_waiting import NO_REPLICA, Reason, runs, waits_for
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.pause import AUTO_PAUSED
from tenantcron.schedules.timetable import split_bounds
from tenantcron.store.rows.execution_history import WAITING, ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tenants import TenantStatus


def explain(status: ScheduleStatus) -> list[Reason]:
    """Return all reasons; there is always at least one."""
    return [reason for check in _CHECKS for reason in check(status)]


def _tenant(status: ScheduleStatus) -> Iterator[Reason]:
    tenant = status.tenant
    if tenant.status is not TenantStatus.ACTIVE:
        why = f": {tenant.status_reason}" if tenant.status_reason else ""
        yield Reason(
            f"tenant-{tenant.status}",
            f"Tenant `{tenant.id}` is {tenant.status}{why}. Its executions do not start.",
            f"Its status belongs to the tenant source ({status.source.name}): change it there."
            if tenant.sourced and status.source
            else f"Run `tenantcron tenant resume {tenant.id}` to reactivate it. Past occurrences "
            "are not fired again.",
        )
    if tenant.sync_fault is not None:
        yield Reason(
            "tenant-left-out",
            f"The scheduler cannot sync the schedules of `{tenant.id}`: {tenant.sync_fault}.",
            "Fix the error. The scheduler retries every minute.",
        )


def _replicas(status: ScheduleStatus) -> Iterator[Reason]:
    if not status.replicas:
        yield NO_REPLICA


def _followed(status: ScheduleStatus) -> Iterator[Reason]:
    tenant, ref = status.tenant, status.ref
    if status.cursor is None:
        yield Reason(
            "not-followed",
            f"`{ref}` is declared, but no scheduler has picked it up yet.",
            "A running scheduler picks it up within seconds, or after its refresh interval.",
        )
    elif tenant.schedule_revision != tenant.synced_revision:
        yield Reason(
            "not-followed",
            f"The schedules of `{tenant.id}` have changed (revision {tenant.schedule_revision}), "
            f"but the scheduler still uses revision {tenant.synced_revision}.",
            "A running scheduler picks up the change within seconds, or after its refresh "
            "interval.",
        )


def _disabled(status: ScheduleStatus) -> Iterator[Reason]:
    if not status.enabled:
        yield Reason(
            "disabled",
            f"`{status.ref}` is disabled in its manifest.",
            "Set `enabled: true` and apply the manifest. `tenantcron schedule trigger` runs it "
            "once while it is disabled.",
        )


def _fault(status: ScheduleStatus) -> Iterator[Reason]:
    cursor = status.cursor
    if cursor is not None and cursor.fault is not None:
        yield Reason(
            "set-aside",
            f"The schedule cannot be evaluated and is quarantined: {cursor.fault}.",
            "Apply the tenant's manifest again. If nothing changes, edit the schedule's "
            "description as well.",
        )


def _paused(status: ScheduleStatus) -> Iterator[Reason]:
    cursor, pause, ref = status.cursor, status.pause, status.ref
    if cursor is None or pause is None:
        return
    if pause.reason == AUTO_PAUSED:
        yield Reason(
            "auto-paused",
            f"It failed {cursor.consecutive_failures} times in a row, so it was paused at "
            f"{in_utc(pause.at)}.",
            f"See `tenantcron execution list --tenant {ref.tenant} --schedule {ref.schedule} "
            f"--state DEAD`, fix the cause, then `tenantcron schedule resume {ref}`.",
        )
        return
    until = f" until {in_utc(pause.until)}" if pause.until else ""
    yield Reason(
        "paused",
        f"It is paused{until}, since {in_utc(pause.at)} by {pause.by}: {pause.reason}.",
        f"Run `tenantcron schedule resume {ref}` to lift the pause. Past occurrences are not fired "
        "again.",
    )


def _running(status: ScheduleStatus) -> Iterator[Reason]:
    for row in status.unfinished:
        if row.state is State.RUNNING:
            yield runs(row, "It")


def _waiting(status: ScheduleStatus) -> Iterator[Reason]:
    for row in status.unfinished:
        if row.state in WAITING:
            what = f"Execution {row.id} of {in_utc(row.scheduled_for)}"
            yield waits_for(row, status, what, _before(row, status))


def _before(row: ExecutionRow, status: ScheduleStatus) -> ExecutionRow | None:
    """Return the execution of the same schedule that must end before this one starts."""
    if row.overlap == "allow":
        return None
    others = (other for other in status.unfinished if other.id != row.id)
    states = {State.RUNNING} if row.state is State.RETRYING else {State.RUNNING, State.RETRYING}
    return next((other for other in others if other.state in states), None)


def _overdue(status: ScheduleStatus) -> Iterator[Reason]:
    cursor = status.cursor
    if cursor is None or cursor.next_run_at is None or cursor.fault or not cursor.enabled:
        return
    if status.now - cursor.next_run_at > OVERDUE:
        yield Reason(
            "overdue",
            f"Its occurrence of {in_utc(cursor.next_run_at)} is due and has not been fired.",
            "Run `tenantcron health` to check the schedulers.",
        )


# By the reason code of a row. For other codes the row itself is the best advice.
_HINTS: dict[str | None, str] = {
    ReasonCode.PAUSED: "It was paused then; `tenantcron schedule show` shows whether it still is.",
    ReasonCode.LIMIT: "`tenantcron limits --max-concurrent N` raises the limit; `start_within` in "
    "the manifest lets it wait for a slot.",
    ReasonCode.TENANT_LIMIT: "`tenantcron tenant set ID --max-concurrent N` raises the limit; "
    "`start_within` in the manifest lets it wait for a slot.",
    ReasonCode.RATE_LIMIT: "Its host was called as often as `[policy.rate_limits]` allows; "
    "`start_within` in the manifest lets it wait longer, `spread` distributes starts.",
    ReasonCode.TENANT_INACTIVE: "The tenant was not active then; `tenantcron tenant show` shows "
    "whether it is now.",
    ReasonCode.NO_RUNNER: "No replica had a handler for it or served its target; `tenantcron "
    "health` lists sagas without a runner.",
    ReasonCode.SOURCE_STALE: "The tenant source could not be read then; `tenantcron health` shows "
    "whether it can be read now.",
    ReasonCode.STILL_RUNNING: "The previous execution took too long; `overlap: queue` in the "
    "manifest lets it wait.",
    ReasonCode.OWNER_REFUSED: "Its owner was refused: change `owner` in the manifest, or authorise "
    "this one.",
    ReasonCode.REPLACED: "`overlap: cancel_running` ends it for the next one; `queue` runs both.",
    ReasonCode.NO_SCHEDULER: "No scheduler ran then; `start_within`, `catch_up` and "
    "`catch_up_window` in the manifest decide which occurrences run later.",
}
_VERBS = {
    State.SUCCEEDED: "It did run",
    State.SKIPPED: "The last occurrence was skipped",
    State.MISSED: "The last occurrence was missed",
    State.DEAD: "The last execution failed for good",
    State.CANCELLED: "The last execution was cancelled",
}


def _last(status: ScheduleStatus) -> Iterator[Reason]:
    row = next((row for row in status.last if row.state in _VERBS), None)
    if row is None:
        return
    yield Reason(
        f"last-{row.state.lower()}",
        f"{_VERBS[row.state]}: execution {row.id} of {in_utc(row.scheduled_for)}"
        f"{_ending(row, status)}.",
        _advice(row, status),
    )


def _ending(row: ExecutionRow, status: ScheduleStatus) -> str:
    if row.state is State.SUCCEEDED:
        return f", ended at {in_utc(row.finished_at)}" if row.finished_at else ""
    attempt = status.last_attempt if row is status.last[0] else None
    error = attempt.error.splitlines()[0] if attempt and attempt.error else None
    why = row.reason or error
    return f", {why}" if why else ""


def _advice(row: ExecutionRow, status: ScheduleStatus) -> str:
    show = f"`tenantcron execution show {row.id}` shows its details"
    retry = f"`tenantcron execution retry {row.id}` runs it now"
    # A disabled schedule cannot be retried, but it can be triggered.
    if not status.enabled:
        retry = f"`tenantcron schedule trigger {status.ref}` runs it anyway"
    if row.state is State.SUCCEEDED:
        return f"{show}."
    if row.state in (State.DEAD, State.CANCELLED):
        return f"{show}; {retry}."
    hint = _HINTS.get(row.reason_code)
    return f"{hint} {retry}." if hint else f"{show}; {retry}."


def _timetable(status: ScheduleStatus) -> Iterator[Reason]:
    cron_expr, timezone = status.timetable
    expression = split_bounds(cron_expr).expression
    limits = f" It {status.timetable_limits}." if status.timetable_limits else ""
    try:
        ahead = status.next_executions(1)
    except TenantcronError as error:
        message = f"Its timetable cannot be read: {error}."
        yield Reason("bad-timetable", message, "Apply the manifest again.")
        return
    if ahead:
        yield Reason(
            "next",
            f"The next occurrence of `{expression}` in {timezone} is at "
            f"{in_utc(ahead[0])}.{limits}",
            f"Run `tenantcron schedule trigger {status.ref}` to run it now.",
        )
    elif status.enabled and not status.pause:
        yield Reason(
            "no-occurrence",
            f"Its timetable `{expression}` in {timezone} has no future occurrence.{limits}",
            f"Run `tenantcron schedule trigger {status.ref}` to run it now.",
        )


_CHECKS = (
    *(_tenant, _disabled, _paused, _fault, _replicas),
    *(_followed, _running, _waiting, _overdue, _last, _timetable),
)
