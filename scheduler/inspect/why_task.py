"""Why a task has not run: its time, its tenant, the schedulers, then limits; or how it ended.

The first reason is the answer, as for schedules. Values in, values out; `task_status` reads them.
"""

from collections.abc import Iterator
from typing import Final

from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.task_status import TaskStatus
from tenantcron.scheduler.inspect.why_waiting import NO_REPLICA, Reason, runs, waits_for
from tenantcron.store.rows.execution_history import WAITING, ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tenants import TenantStatus

_ENDS: Final = {
    State.SUCCEEDED: "It did run",
    State.DEAD: "It failed for good",
    State.SKIPPED: "It was skipped",
    State.MISSED: "It was missed",
    State.CANCELLED: "It was cancelled",
}


def explain_task(status: TaskStatus) -> list[Reason]:
    """Return all reasons; there is always at least one."""
    row = status.execution
    if row is not None and row.state in _ENDS:
        return [_ended(row, status)]
    if row is not None and row.state is State.RUNNING:
        return [runs(row, "It")]
    if row is None and status.task.execute_at > status.start.now:
        return [_waits_for_its_time(status), *_tenant(status), *_replicas(status)]
    return [*_tenant(status), *_replicas(status), _waits(row, status)]


def _waits_for_its_time(status: TaskStatus) -> Reason:
    task = status.task
    return Reason(
        "waits-for-its-time",
        f"It is due at {in_utc(task.execute_at)}. {task.actor_id} submitted it at "
        f"{in_utc(task.submitted_at)}.",
        f"It starts by itself. Run `tenantcron task reschedule {status.ref} --at TIME` to move it.",
    )


def _tenant(status: TaskStatus) -> Iterator[Reason]:
    tenant, source = status.start.tenant, status.start.source
    if tenant.status is TenantStatus.ACTIVE:
        return
    why = f": {tenant.status_reason}" if tenant.status_reason else ""
    yield Reason(
        f"tenant-{tenant.status}",
        f"Tenant `{tenant.id}` is {tenant.status}{why}. Its due tasks are skipped.",
        f"Its status belongs to the tenant source ({source.name}): change it there."
        if tenant.sourced and source
        else f"Run `tenantcron tenant resume {tenant.id}` to reactivate it, then `tenantcron task "
        f"retry {status.ref}` if the task was skipped.",
    )


def _replicas(status: TaskStatus) -> Iterator[Reason]:
    if not status.start.replicas:
        yield NO_REPLICA


def _waits(row: ExecutionRow | None, status: TaskStatus) -> Reason:
    if row is not None and row.state in WAITING:
        return waits_for(row, status.start, "It")
    due = f"It has been due since {in_utc(status.task.execute_at)}"
    former = status.start.former_replicas
    if former:
        last = max(former, key=lambda replica: replica.seen_at)
        return Reason(
            "waits-for-upgrade",
            f"{due}, but no task fires while a scheduler of the previous release runs: {last.id}, "
            f"last seen at {in_utc(last.seen_at)}. It would end the task.",
            "Stop the schedulers of the previous release. One that was killed counts for an hour.",
        )
    return Reason(
        "waits-to-be-fired",
        f"{due}, and has not been fired yet.",
        "A running scheduler fires it within seconds. Run `tenantcron health` to check the "
        "schedulers.",
    )


def _ended(row: ExecutionRow, status: TaskStatus) -> Reason:
    at = f" at {in_utc(row.finished_at)}" if row.finished_at else ""
    attempt = status.last_attempt
    error = attempt.error.splitlines()[0] if attempt and attempt.error else None
    why = None if row.state is State.SUCCEEDED else row.reason or error
    shows = f"`tenantcron task show {status.ref}` shows its details"
    retries = f"; `tenantcron task retry {status.ref}` runs it again"
    return Reason(
        row.state.lower(),
        f"{_ENDS[row.state]}{at}{f': {why}' if why else ''}.",
        f"{shows}{'' if row.state is State.SUCCEEDED else retries}.",
    )
