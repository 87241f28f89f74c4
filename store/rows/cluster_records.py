"""Audit records of all tenants in one list, the newest first. Decision 43 has the reasons.

Records of schedules are in the schemas of tenants. `schedule_change` has the times at which each
tenant's schedules changed, so a page reads only the schemas of the tenants that it shows, by one
statement, and at most `MOST_TENANTS` of them. Records of the same time are ordered: those of
schedules first, by tenant and id, then those of the control schema by id, all descending.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import (
    MetaData,
    Select,
    String,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows.audit_records import (
    ROWS_A_FETCH,
    SCHEDULE,
    AuditFilter,
    AuditRow,
    conditions,
)
from tenantcron.store.schema.tables import (
    audit_record,
    control_audit_record,
    schedule_change,
    tenant,
)

# Each schema adds about four locks to the transaction.
MOST_TENANTS: Final = 100
# Of control records in the order of records of the same time.
_NO_TENANT: Final = ""
_LAST_ID: Final = 2**63 - 1
_COLUMNS: Final = [name for name in AuditRow.__dataclass_fields__ if name != "in_tenant"]


@dataclass(frozen=True, slots=True)
class ClusterPosition:
    """A position in the list; the tenant is empty for records of the control schema."""

    changed_at: datetime
    tenant: str
    id: int


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """A record and its tenant; None for records about the cluster."""

    row: AuditRow
    tenant: TenantId | None

    @property
    def position(self) -> ClusterPosition:
        """Its position in the list."""
        of = self.tenant if self.row.in_tenant and self.tenant else _NO_TENANT
        return ClusterPosition(self.row.changed_at, of, self.row.id)


@dataclass(frozen=True, slots=True)
class _Change:
    changed_at: datetime
    tenant_id: TenantId
    schema: str


@dataclass(slots=True)
class RecordSelection:
    """The tenants and times that a page reads; `rest`: the list continues at this position."""

    schemas: dict[TenantId, str] = field(default_factory=dict)
    times: dict[TenantId, list[datetime]] = field(default_factory=dict)
    rest: ClusterPosition | None = None


async def select_changes(
    connection: AsyncConnection, filters: AuditFilter, before: ClusterPosition | None, limit: int
) -> RecordSelection:
    """Select the newest changes of schedules, of a limited number of tenants."""
    selection = RecordSelection()
    if filters.entity_type not in (None, SCHEDULE):
        return selection
    changes = await _changes(connection, filters, before, limit)
    for change in changes:
        if change.tenant_id not in selection.schemas and len(selection.schemas) == MOST_TENANTS:
            selection.rest = ClusterPosition(change.changed_at, change.tenant_id, _LAST_ID)
            return selection
        selection.schemas[change.tenant_id] = change.schema
        selection.times.setdefault(change.tenant_id, []).append(change.changed_at)
    if len(changes) == limit:
        last = changes[-1]
        selection.rest = ClusterPosition(last.changed_at, last.tenant_id, 0)
    return selection


async def _changes(
    connection: AsyncConnection, filters: AuditFilter, before: ClusterPosition | None, limit: int
) -> list[_Change]:
    columns = schedule_change.c
    audit_table = func.to_regclass(func.format("%I.audit_record", tenant.c.schema_name))
    statement = (
        select(columns.changed_at, columns.tenant_id, tenant.c.schema_name)
        .join(tenant, tenant.c.id == columns.tenant_id)
        # A deprovisioned tenant may have no schema.
        .where(func.has_table_privilege(audit_table, "SELECT"))
        .order_by(columns.changed_at.desc(), columns.tenant_id.desc(), columns.changed_by.desc())
        .limit(limit)
    )
    if filters.tenant is not None:
        statement = statement.where(columns.tenant_id == filters.tenant)
    if filters.since is not None:
        statement = statement.where(columns.changed_at >= filters.since)
    if filters.until is not None:
        statement = statement.where(columns.changed_at < filters.until)
    if filters.actor is not None:
        statement = statement.where(columns.changed_by == filters.actor)
    if before is not None and before.tenant == _NO_TENANT:
        statement = statement.where(columns.changed_at < before.changed_at)
    elif before is not None:
        position = tuple_(columns.changed_at, columns.tenant_id)
        statement = statement.where(position <= tuple_(before.changed_at, before.tenant))
    return [_Change(*row) for row in await connection.execute(statement)]


async def page(
    connection: AsyncConnection,
    filters: AuditFilter,
    selection: RecordSelection,
    *,
    before: ClusterPosition | None,
    limit: int,
) -> AsyncGenerator[ClusterRecord, None]:
    """Yield the records of a page. A cursor fetches a few at a time, because they can be large."""
    parts = [
        _control(filters, selection, before).limit(limit),
        *(_of_tenant(of, filters, selection, before).limit(limit) for of in selection.schemas),
    ]
    merged = union_all(*(select(part.subquery()) for part in parts)).subquery()
    columns = merged.c
    newest = select(merged).order_by(
        columns.changed_at.desc(), columns.in_tenant.desc(), columns.place.desc(), columns.id.desc()
    )
    cursor = await connection.stream(
        newest.limit(limit), execution_options={"max_row_buffer": ROWS_A_FETCH}
    )
    try:
        async for *record, tenant_id, _ in cursor:
            yield ClusterRecord(AuditRow(*record), tenant_id)
    finally:
        await cursor.close()


def _control(
    filters: AuditFilter, selection: RecordSelection, before: ClusterPosition | None
) -> Select[tuple[object, ...]]:
    columns = control_audit_record.c
    statement = select(
        *(columns[name] for name in _COLUMNS),
        literal_column("false").label("in_tenant"),
        columns.tenant_id,
        cast(literal(_NO_TENANT), String).label("place"),
    ).where(*conditions(control_audit_record, filters))
    if filters.tenant is not None:
        statement = statement.where(columns.tenant_id == filters.tenant)
    if selection.rest is not None:
        # Older records follow changes that are not selected.
        statement = statement.where(columns.changed_at > selection.rest.changed_at)
    if before is not None and before.tenant == _NO_TENANT:
        position = tuple_(columns.changed_at, columns.id)
        statement = statement.where(position < tuple_(before.changed_at, before.id))
    elif before is not None:
        statement = statement.where(columns.changed_at <= before.changed_at)
    return statement.order_by(columns.changed_at.desc(), columns.id.desc())


def _of_tenant(
    of: TenantId,
    filters: AuditFilter,
    selection: RecordSelection,
    before: ClusterPosition | None,
) -> Select[tuple[object, ...]]:
    table = audit_record.to_metadata(MetaData(), schema=selection.schemas[of])
    columns = table.c
    name = cast(literal(of), String)
    statement = select(
        *(columns[column] for column in _COLUMNS),
        literal_column("true").label("in_tenant"),
        name.label("tenant_id"),
        name.label("place"),
    ).where(columns.changed_at.in_(selection.times[of]), *conditions(table, filters))
    if before is not None and before.tenant == of:
        is_older = columns.changed_at < before.changed_at
        statement = statement.where(or_(is_older, columns.id < before.id))
    return statement.order_by(columns.changed_at.desc(), columns.id.desc())
