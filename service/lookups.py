"""Look-ups of tenants, schedules and executions that the caller may see."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId, tenant_id
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.document import definitions
from tenantcron.reconciler.state import LiveState
from tenantcron.scheduler.inspect.schedule_status import UnknownError, require_schedule
from tenantcron.schedules.pause import Pause
from tenantcron.service.work import Work
from tenantcron.store.rows import execution_history, tenant_schedules
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.tenant_schedules import ListedSchedule, ScheduleFilter
from tenantcron.store.rows.tenants import TenantRow, TenantStatus


def visible_tenant(work: Work, text: str) -> TenantId:
    """Return the tenant of a path; raise UnknownError if the caller may not see it."""
    tenant = tenant_id(text)
    work.require_tenant(tenant)
    return tenant


async def page_of_schedules(
    connection: AsyncConnection,
    row: TenantRow,
    wanted: ScheduleFilter,
    after: str | None,
    limit: int,
) -> list[ListedSchedule]:
    """Return schedules of a tenant; a deprovisioned tenant may have no schema."""
    if row.status is TenantStatus.DEPROVISIONED:
        return []
    return await tenant_schedules.page(connection, row, wanted, after=after, limit=limit)


def state_of(
    row: TenantRow,
    found: Sequence[ListedSchedule],
    paused: dict[UUID, Pause],
    faults: dict[TenantId, dict[str, str]],
) -> LiveState:
    """Return the schedules of a tenant as the reconciler represents them."""
    live = definitions({"schedules": [listed.columns for listed in found]})
    pairs = list(zip(found, live, strict=True))
    pauses = {
        definition.schedule_name: paused[listed.id]
        for listed, definition in pairs
        if listed.id in paused
    }
    providers = {definition.schedule_name: listed.provider for listed, definition in pairs}
    return LiveState(
        row, live=live, pauses=pauses, faults=faults.get(row.id, {}), providers=providers
    )


async def existing_schedule(work: Work, tenant: str, schedule: str) -> ScheduleRef:
    """Return a schedule that the caller may see.

    The cursors are synced here, before the transaction of the write begins. So that transaction
    has no cursors to sync and locks no other tenants.
    """
    ref = ScheduleRef(visible_tenant(work, tenant), schedule)
    async with work.reading.transaction() as connection:
        await require_schedule(connection, ref)
    await refresh(work.writing, TenantScheduleProvider(work.bounds))
    return ref


async def require_execution(work: Work, execution: UUID) -> None:
    """Raise UnknownError if the caller may not see the execution."""
    async with work.reading.transaction() as connection:
        await visible_execution(connection, work, execution)


async def visible_execution(
    connection: AsyncConnection, work: Work, execution: UUID
) -> ExecutionRow:
    """Return an execution; raise UnknownError if the caller may not see its tenant."""
    found = await execution_history.with_ids_between(connection, execution, execution, 1)
    if not found or not work.sees(found[0].tenant_id):
        raise UnknownError(f"execution {execution} does not exist or is past its retention")
    return found[0]
