"""Health, audit and audit records of a database."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.cli.clusters.platform import RecordQuery
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.inspect.schedule_status import existing_tenant, require_schedule
from tenantcron.service.health import check_health
from tenantcron.service.responses.audit import audit_as_json
from tenantcron.service.responses.platform_shapes import AuditResponse
from tenantcron.service.responses.records import cluster_record_as_json, record_as_json
from tenantcron.service.responses.shapes import ClusterAuditRecordResponse, HealthResponse
from tenantcron.store.rows import audit_records, cluster_records
from tenantcron.store.rows.audit_records import AuditFilter, AuditRow
from tenantcron.store.rows.cluster_records import ClusterPosition, ClusterRecord
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema import tenant_objects


@dataclass(frozen=True, slots=True)
class DatabaseInspection:
    """Health, audit and audit records of a database."""

    caller: LocalCaller

    async def health(self) -> HealthResponse:
        """Return the health of the cluster."""
        report = await check_health(self.caller.database, self.caller.settings)
        return report.as_json()

    async def audit(self, tenant: TenantId | None, since: datetime | None) -> AuditResponse:
        """Compare expected occurrences with recorded executions."""
        retention = self.caller.settings.retention
        audited = await audit(self.caller.database, retention, tenant=tenant, since=since)
        return audit_as_json(audited)

    async def records(self, query: RecordQuery, limit: int) -> Sequence[ClusterAuditRecordResponse]:
        """Return the newest audit records with their tenants."""
        filters = AuditFilter(since=query.since, until=query.until, schedule=query.schedule)
        async with self.caller.database.transaction() as connection:
            if query.tenant is None:
                everything = await _of_cluster(connection, filters, limit)
                return [cluster_record_as_json(record) for record in everything]
            row = await existing_tenant(connection, query.tenant)
            found = await _of_tenant(connection, row, filters, limit)
            if not found and query.schedule is not None:
                # A deleted schedule still has its records; one that never existed is a typo.
                await require_schedule(connection, ScheduleRef(query.tenant, query.schedule))
        return [{"tenant": query.tenant, **record_as_json(record)} for record in found]


async def _of_cluster(
    connection: AsyncConnection, filters: AuditFilter, limit: int
) -> list[ClusterRecord]:
    """Read the records of all tenants page by page, as the API does for its callers."""
    found: list[ClusterRecord] = []
    position: ClusterPosition | None = None
    while True:
        size = limit - len(found) + 1
        selection = await cluster_records.select_changes(connection, filters, position, size)
        rows = cluster_records.page(connection, filters, selection, before=position, limit=size)
        async with aclosing(rows):
            found += [row async for row in rows]
        position = selection.rest
        if position is None or len(found) >= limit:
            return found[:limit]


async def _of_tenant(
    connection: AsyncConnection, tenant: TenantRow, filters: AuditFilter, limit: int
) -> list[AuditRow]:
    schema = await _schema(connection, tenant)
    rows = audit_records.page(connection, tenant.id, schema, filters, before=None, limit=limit)
    async with aclosing(rows):
        return [row async for row in rows]


async def _schema(connection: AsyncConnection, tenant: TenantRow) -> str | None:
    """Return the tenant's schema; None if its tables are dropped."""
    is_kept = await tenant_objects.has_tenant_tables(connection, tenant.schema_name)
    return tenant.schema_name if is_kept else None
