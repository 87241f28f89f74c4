"""Checks that refuse an operation, each with the reason and what to do instead."""

from tenantcron.actor.model import MANUAL
from tenantcron.core.errors import DeclinedError
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.words import in_utc
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.tenants import TenantRow, TenantStatus

RETRIABLE = (State.DEAD, State.CANCELLED, State.SKIPPED, State.MISSED)
CANCELLABLE = (State.PENDING, State.RETRYING, State.RUNNING)


class OperationError(DeclinedError):
    """An operation is not possible now; the message says why and what to do instead."""


def refuse_retry(found: ExecutionRow) -> None:
    """Refuse to retry an execution that has not ended, or that succeeded."""
    if found.state in RETRIABLE:
        return
    ref = f"{found.tenant_id}/{found.schedule_name}"
    hint = {
        State.SUCCEEDED: f"`tenantcron schedule trigger {ref}` runs the schedule once more",
        State.RETRYING: f"it is retried by itself at {in_utc(found.not_before)}",
        State.PENDING: f"it is already queued; `tenantcron why {ref}` shows why it waits",
        State.RUNNING: "it is running; cancel it first to restart it",
    }[found.state]
    raise OperationError(f"execution {found.id} is {found.state}, so it cannot be retried: {hint}")


def refuse_cancel(found: ExecutionRow) -> None:
    """Refuse to cancel an execution that has ended, or that was already asked to stop."""
    if found.state not in CANCELLABLE:
        raise OperationError(
            f"execution {found.id} is {found.state}: it has ended and cannot be cancelled"
        )
    if found.state is State.RUNNING and found.cancel_requested_at is not None:
        raise OperationError(
            f"execution {found.id} was already asked to stop at "
            f"{in_utc(found.cancel_requested_at)} ({found.cancel_reason}): "
            "its worker ends it, or its lease expires"
        )


def refuse_cancel_of_running(found: ExecutionRow) -> None:
    """Refuse to cancel a task that runs, or has ended."""
    if found.state is State.RUNNING:
        raise OperationError(
            f"task {found.id} is running: cancel it with force to ask its worker to stop"
        )
    refuse_cancel(found)


def refuse_closed(tenant: TenantRow) -> None:
    """Refuse an operation that starts executions of an inactive tenant."""
    if tenant.status is TenantStatus.ACTIVE:
        return
    why = f" ({tenant.status_reason})" if tenant.status_reason else ""
    raise OperationError(
        f"tenant `{tenant.id}` is {tenant.status}{why}, so its executions cannot start: "
        f"run `tenantcron tenant resume {tenant.id}` first"
    )


def refuse_quarantined(cursor: CursorRow, ref: ScheduleRef) -> None:
    """Refuse to trigger a quarantined schedule."""
    if cursor.fault is not None:
        raise OperationError(f"`{ref}` is quarantined: {cursor.fault}")


def refuse_disabled(cursor: CursorRow, found: ExecutionRow) -> None:
    """Refuse to retry what the claim would end at once; manual triggers are exempt."""
    if found.actor_source == MANUAL:
        return
    ref = f"{cursor.tenant_id}/{cursor.schedule_name}"
    if not cursor.enabled:
        raise OperationError(
            f"`{ref}` is disabled in its manifest: run it anyway with `tenantcron schedule trigger "
            f"{ref}`"
        )
