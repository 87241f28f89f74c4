"""The page of an execution: its attempts, its audit records and its actions."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.actor.model import MANUAL
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.scheduler.operate.execution_lookup import details_of
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.operate.refusals import OperationError, refuse_cancel, refuse_retry
from tenantcron.service.lookups import require_execution, visible_execution
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import audit_records
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.schema import tenant_objects
from tenantcron.web.rendering import rendered, took
from tenantcron.web.routing import reason_of
from tenantcron.web.sessions import ROOT, Visit

_RECORDS: Final = 50
# A record has the start time of its transaction, which is before the row was created.
_BEFORE: Final = timedelta(minutes=1)
DID: Final = {
    "trigger": "Triggered. It starts as soon as limits and overlap allow.",
    "retry": "Queued for retry. It starts as soon as limits allow.",
    "cancel": "Cancelled. If it is running, its worker was asked to stop it.",
}


async def show(request: Request, visit: Visit) -> Response:
    """Show an execution."""
    execution = _id(request)
    async with visit.work.reading.transaction() as connection:
        row = await visible_execution(connection, visit.work, execution)
        now = await database_time(connection)
        details = await details_of(connection, row)
        tenant = await existing_tenant(connection, row.tenant_id)
        kept = await tenant_objects.has_tenant_tables(connection, tenant.schema_name)
        records = await audit_records.of_execution(
            connection,
            row.tenant_id,
            tenant.schema_name if kept else None,
            row.id,
            since=row.created_at - _BEFORE,
            limit=_RECORDS,
        )
    return rendered(
        request,
        "execution.html",
        visit=visit,
        row=row,
        now=now,
        attempts=details.attempts,
        running_log=details.running_log,
        records=records,
        took=took,
        can_retry=_can(refuse_retry, row),
        can_cancel=_can(refuse_cancel, row),
        did=_done(request, row),
    )


def _done(request: Request, row: ExecutionRow) -> str | None:
    """Return the confirmation of an action, if the execution confirms it: the URL may be stale."""
    did = request.query_params.get("did", "")
    shows = {
        "trigger": row.actor_source == MANUAL and row.state is State.PENDING,
        "retry": row.state is State.PENDING,
        "cancel": row.state is State.CANCELLED or row.cancel_requested_at is not None,
    }
    return DID[did] if shows.get(did, False) else None


async def retry(request: Request, visit: Visit, form: Mapping[str, str]) -> str:  # noqa: ARG001 -- a click has a form
    """Retry an execution."""
    execution = _id(request)
    await require_execution(visit.work, execution)
    async with visit.work.writing.transaction() as connection:
        work = visit.work
        operator = Operator(work.writing.joining(connection), work.settings, work.who)
        await operator.retry(str(execution))
    return f"{ROOT}/executions/{execution}?did=retry"


async def cancel(request: Request, visit: Visit, form: Mapping[str, str]) -> str:
    """Cancel an execution, or request it to stop."""
    execution, reason = _id(request), reason_of(form, required=False)
    await require_execution(visit.work, execution)
    async with visit.work.writing.transaction() as connection:
        work = visit.work
        operator = Operator(work.writing.joining(connection), work.settings, work.who)
        await operator.cancel(str(execution), reason)
    return f"{ROOT}/executions/{execution}?did=cancel"


def _id(request: Request) -> UUID:
    text = request.path_params["execution"]
    try:
        return UUID(text)
    except ValueError as error:
        raise UnknownError("not an execution id") from error


def _can(refuse: Callable[[ExecutionRow], None], row: ExecutionRow) -> bool:
    """Whether to show the button of an action."""
    try:
        refuse(row)
    except OperationError:
        return False
    return True
