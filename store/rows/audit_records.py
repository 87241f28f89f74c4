"""Audit records, and the actor of a transaction.

The database writes the records itself: a trigger on each audited table inserts one per changed row,
in the same transaction, with the row before and after. So no code path can omit it, and manual
changes are recorded, too. `act` sets the actor once per transaction. Without it, a trigger records
the database user, with the source `sql`. The setting ends with the transaction, so it cannot leak
to the next user of a pooled connection.
"""

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from psycopg import sql
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    tuple_,
    union_all,
)
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.store.connection import arrays
from tenantcron.store.connection.engine import of_tenant
from tenantcron.store.schema.tables import audit_record, control_audit_record

SCHEDULE = "schedule"
TENANT = "tenant"
EXECUTION = "execution"
TASK = "task"
PAUSE = "pause"
LIMITS = "limits"
# The entity id of the cluster limits in the triggers.
CLUSTER = "cluster"
# A record has two versions of a row, each with a payload of up to 256 KiB.
ROWS_A_FETCH = 25


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A record of either audit table; the fields are the columns."""

    entity_type: str
    entity_id: str
    id: int
    operation: str
    changed_by: str
    actor_type: str
    actor_source: str
    authenticated: bool
    correlation_id: UUID | None
    before: JsonValue
    after: JsonValue
    changed_at: datetime
    # Records of schedules are in the tenant's schema, all others in the control schema.
    in_tenant: bool

    @property
    def place(self) -> "AuditPlace":
        """Its position in the list."""
        return AuditPlace(self.changed_at, self.in_tenant, self.id)


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """A position in the list of a tenant's records, which is ordered by time."""

    changed_at: datetime
    in_tenant: bool
    id: int


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of records; None matches everything."""

    entity_type: str | None = None
    entity_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    # The id of the actor.
    actor: str | None = None
    # Changes, pauses and resumptions of this schedule.
    schedule: str | None = None
    # For lists of all tenants.
    tenant: TenantId | None = None


async def page(  # noqa: PLR0913 -- tenant, filter and page
    connection: AsyncConnection,
    tenant: TenantId,
    schema: str | None,
    filters: AuditFilter,
    *,
    before: AuditPlace | None,
    limit: int,
) -> AsyncGenerator[AuditRow, None]:
    """Yield a page of a tenant's records, the newest first.

    Each of the two audit tables returns at most `limit` records, and these are merged. Without a
    schema, which a deprovisioned tenant may lack, only the control schema is read. Records can be
    large: a cursor fetches a few at a time, and the caller stops when it has enough.
    """
    own = control_audit_record.c
    control = _some(control_audit_record, filters, before).where(own.tenant_id == tenant)
    schedules = _some(audit_record, filters, before)
    if filters.schedule is not None:
        pauses = f"{tenant}/{filters.schedule}"
        control = control.where(own.entity_type == PAUSE, own.entity_id == pauses)
        schedules = schedules.where(
            audit_record.c.entity_type == SCHEDULE, audit_record.c.entity_id == filters.schedule
        )
    parts = [control.limit(limit)]
    if schema is not None:
        of_tenant(connection, schema)
        parts.append(schedules.limit(limit))
    merged = union_all(*(select(part.subquery()) for part in parts)).subquery()
    columns = merged.c
    newest = select(merged).order_by(
        columns.changed_at.desc(), columns.in_tenant.desc(), columns.id.desc()
    )
    cursor = await connection.stream(
        newest.limit(limit), execution_options={"max_row_buffer": ROWS_A_FETCH}
    )
    try:
        async for row in cursor:
            yield AuditRow(*row)
    finally:
        await cursor.close()


async def of_execution(  # noqa: PLR0913 -- tenant, execution and page
    connection: AsyncConnection,
    tenant: TenantId,
    schema: str | None,
    execution: UUID,
    *,
    since: datetime,
    limit: int,
) -> list[AuditRow]:
    """Return the records about an execution or of its changes, the oldest first.

    Its id is the correlation id of all its changes, and the entity id of operations on it. In the
    control schema, an index finds a tenant's records since a time. The tenant's own table only has
    changes of schedules: too few records for an index that every apply would maintain.
    """
    tables = [control_audit_record] if schema is None else [control_audit_record, audit_record]
    if schema is not None:
        of_tenant(connection, schema)
    filters = AuditFilter(since=since)
    parts = [_some(table, filters, None).where(_concerns(table, execution)) for table in tables]
    parts[0] = parts[0].where(control_audit_record.c.tenant_id == tenant)
    merged = union_all(*(select(part.limit(limit).subquery()) for part in parts)).subquery()
    oldest = select(merged).order_by(merged.c.changed_at, merged.c.id).limit(limit)
    return [AuditRow(*row) for row in await connection.execute(oldest)]


async def of_schedule(
    connection: AsyncConnection,
    tenant: TenantId,
    schema: str | None,
    schedule: str,
    *,
    limit: int,
) -> list[AuditRow]:
    """Return the changes, pauses and resumptions of a schedule, the newest first.

    Both audit tables are read by primary key, which begins with the entity.
    """
    pauses = AuditFilter(PAUSE, f"{tenant}/{schedule}")
    parts = [_some(control_audit_record, pauses, None).limit(limit)]
    if schema is not None:
        of_tenant(connection, schema)
        parts.append(_some(audit_record, AuditFilter(SCHEDULE, schedule), None).limit(limit))
    merged = union_all(*(select(part.subquery()) for part in parts)).subquery()
    newest = select(merged).order_by(merged.c.changed_at.desc(), merged.c.id.desc()).limit(limit)
    try:
        async with connection.begin_nested():
            return [AuditRow(*row) for row in await connection.execute(newest)]
    except ProgrammingError:  # the schema has no audit table
        return []


def _concerns(table: Table, execution: UUID) -> ColumnElement[bool]:
    columns = table.c
    is_it = and_(columns.entity_type == EXECUTION, columns.entity_id == str(execution))
    return or_(is_it, columns.correlation_id == execution)


def _some(
    table: Table, filters: AuditFilter, before: AuditPlace | None
) -> Select[tuple[object, ...]]:
    columns = [table.c[name] for name in AuditRow.__dataclass_fields__ if name != "in_tenant"]
    statement = select(*columns, literal(table is audit_record).label("in_tenant"))
    statement = statement.where(*conditions(table, filters))
    if before is not None:
        statement = statement.where(_is_before(table, before))
    return statement.order_by(table.c.changed_at.desc(), table.c.id.desc())


def conditions(table: Table, filters: AuditFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter that apply to single records."""
    columns = table.c
    equal = {
        columns.entity_type: filters.entity_type,
        columns.entity_id: filters.entity_id,
        columns.changed_by: filters.actor,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    if filters.since is not None:
        found.append(columns.changed_at >= filters.since)
    if filters.until is not None:
        found.append(columns.changed_at < filters.until)
    return found


def _is_before(table: Table, place: AuditPlace) -> ColumnElement[bool]:
    """Order records of the same time: those of the tenant first, then by id, the newest first."""
    if place.in_tenant == (table is audit_record):
        return tuple_(table.c.changed_at, table.c.id) < tuple_(place.changed_at, place.id)
    if place.in_tenant:
        return table.c.changed_at <= place.changed_at
    return table.c.changed_at < place.changed_at


@dataclass(frozen=True, slots=True)
class Touch:
    """The last change of an entity."""

    by: str
    source: str
    at: datetime
    operation: str


async def act(connection: AsyncConnection, who: Attribution) -> None:
    """Set the actor until the end of this transaction."""
    settings = who.settings()
    await connection.execute(_local(tuple(settings)), settings)


@cache
def _local(names: tuple[str, ...]) -> Select[tuple[str, ...]]:
    return select(*(func.set_config(name, bindparam(name), True) for name in names))


async def record(  # noqa: PLR0913 -- the columns of a record
    connection: AsyncConnection,
    who: Attribution,
    *,
    entity: tuple[str, str],
    operation: str,
    tenant: TenantId | None = None,
    before: JsonObject | None = None,
    after: JsonObject | None = None,
) -> None:
    """Record an operation for which there is no trigger, such as one on an execution.

    Executions change too often for a trigger. Call it in the transaction of the change.
    """
    entity_type, entity_id = entity
    values = {
        "entity_type": entity_type,
        "entity_id": entity_id,
        "operation": operation,
        "tenant_id": tenant,
        # SQL NULL, not a JSON null.
        "before": null() if before is None else before,
        "after": null() if after is None else after,
        **who.columns(),
    }
    await connection.execute(insert(control_audit_record).values(values))


@dataclass(frozen=True, slots=True)
class RecordedEntity:
    """An entity of a bulk operation, with its state before."""

    id: str
    tenant: TenantId
    before: JsonObject | None = None


_RECORD_EACH = """
INSERT INTO tenantcron.audit_record (
    entity_type, operation, after, changed_by, actor_type, actor_source, authenticated,
    correlation_id, entity_id, tenant_id, before
)
SELECT
    %(entity_type)s, %(operation)s, %(after)s::jsonb, %(changed_by)s, %(actor_type)s,
    %(actor_source)s, %(authenticated)s, %(correlation_id)s::uuid, given.*
FROM unnest(%(ids)s::text[], %(tenants)s::text[], %(befores)s::jsonb[]) AS given
"""


async def record_each(  # noqa: PLR0913 -- the columns of a record
    connection: AsyncConnection,
    who: Attribution,
    entities: Sequence[RecordedEntity],
    *,
    entity_type: str,
    operation: str,
    after: JsonObject | None = None,
) -> None:
    """Record an operation on many entities, one record each, with one statement."""
    if not entities:
        return
    befores = (None if entity.before is None else json.dumps(entity.before) for entity in entities)
    parameters = {
        "entity_type": entity_type,
        "operation": operation,
        "after": None if after is None else json.dumps(after),
        "ids": arrays.texts(entity.id for entity in entities),
        "tenants": arrays.texts(entity.tenant for entity in entities),
        "befores": arrays.texts(befores),
        **who.columns(),
    }
    await connection.exec_driver_sql(_RECORD_EACH, parameters)


_RETURNS = (
    select(control_audit_record.c.entity_id, func.max(control_audit_record.c.changed_at))
    .where(
        control_audit_record.c.entity_type == TENANT,
        control_audit_record.c.entity_id == func.any(bindparam("tenant_ids", type_=ARRAY(Text))),
        control_audit_record.c.before["status"].astext == "deprovisioned",
        control_audit_record.c.after["status"].astext == "active",
    )
    .group_by(control_audit_record.c.entity_id)
)


async def last_returns(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, datetime]:
    """Return when deprovisioned tenants were resumed."""
    rows = await connection.execute(_RETURNS, {"tenant_ids": list(tenant_ids)})
    return {TenantId(tenant): at for tenant, at in rows}


# The columns that decide when a schedule fires.
_TIMETABLE_CHANGED = """
SELECT {tenant}, entity_id, max(changed_at)
FROM {table}
WHERE
    entity_type = 'schedule' AND operation = 'update' AND changed_at >= :since
    AND (before ->> 'cron_expr', before ->> 'timezone', before ->> 'enabled')
        IS DISTINCT FROM (after ->> 'cron_expr', after ->> 'timezone', after ->> 'enabled')
GROUP BY entity_id
"""


async def timetable_changes(
    connection: AsyncConnection, schemas: Mapping[TenantId, str], since: datetime
) -> dict[tuple[TenantId, str], datetime]:
    """Return the last change of each timetable since a time, by an apply or manually."""
    if not schemas:
        return {}
    selects = [
        sql.SQL(_TIMETABLE_CHANGED).format(
            tenant=sql.Literal(str(tenant)), table=sql.Identifier(schema, audit_record.name)
        )
        for tenant, schema in schemas.items()
    ]
    statement = text(sql.SQL(" UNION ALL ").join(selects).as_string())
    try:
        async with connection.begin_nested():
            rows = (await connection.execute(statement, {"since": since})).all()
    except ProgrammingError:  # the schema has no audit table
        return {}
    return {(TenantId(tenant), schedule): at for tenant, schedule, at in rows}


async def last_touches(
    connection: AsyncConnection, schema: str, schedules: Collection[str]
) -> dict[str, Touch]:
    """Return the last change of each schedule."""
    record = audit_record.c
    newest = (
        select(func.max(record.id))
        .where(record.entity_type == SCHEDULE, record.entity_id == func.any(list(schedules)))
        .group_by(record.entity_id)
    )
    statement = select(audit_record).where(record.id.in_(newest))
    rows = await of_tenant(connection, schema).execute(statement)
    return {row.entity_id: _touch(row) for row in rows}


def _touch(row: Row[tuple[object, ...]]) -> Touch:
    return Touch(row.changed_by, row.actor_source, row.changed_at, row.operation)
