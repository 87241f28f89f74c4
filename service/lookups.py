"""Look-ups of what a request names, as its caller sees it; the API and the dashboard share them."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.document import definitions
from tenantcron.reconciler.state import LiveState
from tenantcron.scheduler.inspect.schedule_status import ScheduleRef, UnknownError, require_schedule
from tenantcron.schedules.pause import Pause
from tenantcron.service.work import Work
from tenantcron.store.rows import execution_history, tenant_schedules
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.tenant_schedules import ListedSchedule, SchedulesWanted
from tenantcron.store.rows.tenants import TenantRow, TenantStatus
from tenantcron.tenants.registry import tenant_id


def seen_tenant(work: Work, text: str) -> TenantId:
    """Check the tenant of a path; one that the caller may not know of does not exist."""
    tenant = tenant_id(text)
    work.require_tenant(tenant)
    return tenant


async def some_schedules(
    connection: AsyncConnection,
    row: TenantRow,
    wanted: SchedulesWanted,
    after: str | None,
    limit: int,
) -> list[ListedSchedule]:
    """Return schedules of a tenant; a deprovisioned one may have lost its schema."""
    if row.status is TenantStatus.DEPROVISIONED:
        return []
    return await tenant_schedules.page(connection, row, wanted, after=after, limit=limit)


def state_of(
    row: TenantRow,
    found: Sequence[ListedSchedule],
    paused: dict[UUID, Pause],
    faults: dict[TenantId, dict[str, str]],
) -> LiveState:
    """Return a tenant's schedules as the reconciler tells them."""
    live = definitions({"schedules": [listed.columns for listed in found]})
    named = list(zip(found, live, strict=True))
    pauses = {of.schedule_name: paused[listed.id] for listed, of in named if listed.id in paused}
    providers = {of.schedule_name: listed.provider for listed, of in named}
    return LiveState(
        row, live=live, pauses=pauses, faults=faults.get(row.id, {}), providers=providers
    )


async def existing_schedule(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    """Return a schedule that the caller sees; nothing else of a request is acted upon.

    The cursors are brought in line here, before the transaction of the write begins: that one then
    finds nothing to follow, and holds no locks on other tenants.
    """
    ref = ScheduleRef(seen_tenant(work, tenant), schedule)
    async with work.reading.transaction() as connection:
        await require_schedule(connection, ref)
    await refresh(work.writing, TenantScheduleProvider(work.bounds))
    return ref


async def require_execution(work: Work, execution: UUID) -> None:
    """Refuse what the caller does not see; nothing else of a request is acted upon."""
    async with work.reading.transaction() as connection:
        await seen_execution(connection, work, execution)


async def seen_execution(connection: AsyncConnection, work: Work, execution: UUID) -> ExecutionRow:
    """Return an execution; one of a tenant that the caller may not know of does not exist."""
    found = await execution_history.with_ids_between(connection, execution, execution, 1)
    if not found or not work.sees(found[0].tenant_id):
        raise UnknownError(f"there is no execution {execution}, or it is not kept any more")
    return found[0]
