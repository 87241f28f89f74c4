"""Rows of `tenant_schedule`, in the schemas of the tenants. The reconciler writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import sql
from sqlalchemy import (
    Select,
    Uuid,
    bindparam,
    case,
    column,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import MANIFESTS, TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.connection.engine import of_tenant
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema.batches import Batch, read_in_batches
from tenantcron.store.schema.tables import schedule_cursor, schedule_definition, tenant_schedule

# The columns that a manifest decides; the database sets ids and times.
DEFINITION = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "definition")

# One row per schema. The array is built as text in the format of jsonb, at half the cost. The order
# is that of Python and of documents, whatever the collation of the database.
_LIVE = sql.SQL(
    """
    SELECT {tenant}, count(*),
        concat('[', string_agg(jsonb_build_object(
            'schedule_name', schedule_name, 'saga_name', saga_name, 'cron_expr', cron_expr,
            'timezone', timezone, 'enabled', enabled, 'definition', definition
        )::text, ', ' ORDER BY schedule_name COLLATE "C"), ']'),
        concat(string_agg(id::text, ' ' ORDER BY schedule_name COLLATE "C"))
    FROM {schema}.tenant_schedule
    """
)
# All rows are one JSON parameter: the database parses and plans a single statement.
_GIVEN = (
    func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
    .table_valued(*(column(name, tenant_schedule.c[name].type) for name in DEFINITION))
    .render_derived(name="given", with_types=True)
)
_VERSION = bindparam("version_id", type_=Uuid)
_ADD = insert(tenant_schedule).from_select(
    ["id", *DEFINITION, "manifest_version_id", "created_at", "updated_at", "effective_from"],
    select(func.gen_random_uuid(), *_GIVEN.c, _VERSION, func.now(), func.now(), func.now()),
)
# The columns that decide when a schedule fires.
_TIMETABLE = ("cron_expr", "timezone", "enabled")
_EFFECTIVE_FROM = case(
    (
        or_(*(tenant_schedule.c[name] != _GIVEN.c[name] for name in _TIMETABLE)),
        func.now(),
    ),
    else_=tenant_schedule.c.effective_from,
)
_CHANGE = (
    update(tenant_schedule)
    .where(tenant_schedule.c.schedule_name == _GIVEN.c.schedule_name)
    .values(
        {name: _GIVEN.c[name] for name in DEFINITION if name != "schedule_name"}
        | {
            "manifest_version_id": _VERSION,
            "updated_at": func.now(),
            "effective_from": _EFFECTIVE_FROM,
        }
    )
)


@dataclass(frozen=True, slots=True)
class LiveSchedules:
    """The schedules of one tenant, as JSON text of the database.

    For most tenants the text is only compared with the applied document: parsing it would be most
    of the work for a fleet without changes.
    """

    count: int
    # The definition columns of each schedule, by name, as in the document of a manifest version.
    definitions: str
    # In the same order.
    ids: str


async def read(connection: AsyncConnection, tenant: TenantId, schema: str) -> LiveSchedules:
    """Return the schedules of one tenant."""
    ((_, live),) = await _read(connection, [(tenant, schema)])
    return live


@dataclass(frozen=True, slots=True)
class LiveFleet:
    """The schedules of many tenants, and why the schemas of other tenants cannot be read."""

    live: dict[TenantId, LiveSchedules]
    broken: dict[TenantId, str]


async def read_many(connection: AsyncConnection, schemas: Mapping[TenantId, str]) -> LiveFleet:
    """Return the schedules of many tenants, about fifty schemas per statement."""
    live: dict[TenantId, LiveSchedules] = {}

    async def read(batch: Batch) -> None:
        live.update(await _read(connection, batch))

    return LiveFleet(live, await read_in_batches(connection, schemas, read))


async def _read(
    connection: AsyncConnection, schemas: Sequence[tuple[TenantId, str]]
) -> list[tuple[TenantId, LiveSchedules]]:
    rows = await connection.exec_driver_sql(
        _union(schemas), execution_options={"no_parameters": True}
    )
    return [(tenant, LiveSchedules(*columns)) for tenant, *columns in map(tuple, rows)]


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """A filter of schedules; None and "" match everything."""

    saga: str | None = None
    enabled: bool | None = None
    # A part of the name.
    containing: str = ""


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """A schedule in a list: its definition columns and its provider."""

    id: UUID
    columns: JsonObject
    provider: str


async def page(
    connection: AsyncConnection,
    tenant: TenantRow,
    filters: ScheduleFilter,
    *,
    after: str | None,
    limit: int,
) -> list[ListedSchedule]:
    """Return a page of a tenant's schedules of all providers, by name."""
    found = union_all(_declared(), _provided(tenant)).subquery()
    statement = select(found).order_by(found.c.schedule_name).limit(limit)
    if after is not None:
        statement = statement.where(found.c.schedule_name > after)
    if filters.saga is not None:
        statement = statement.where(found.c.saga_name == filters.saga)
    if filters.enabled is not None:
        statement = statement.where(found.c.enabled == filters.enabled)
    if filters.containing:
        # It reads the schedules of a single tenant, of which there are at most `max_schedules`.
        contains = found.c.schedule_name.contains(filters.containing, autoescape=True)
        statement = statement.where(contains)
    rows = await of_tenant(connection, tenant.schema_name).execute(statement)
    return [
        ListedSchedule(row.id, {name: row._mapping[name] for name in DEFINITION}, row.provider)
        for row in rows
    ]


def _declared() -> Select[tuple[object, ...]]:
    columns = (tenant_schedule.c[name] for name in DEFINITION)
    return select(tenant_schedule.c.id, *columns, literal(MANIFESTS).label("provider"))


def _provided(tenant: TenantRow) -> Select[tuple[object, ...]]:
    """Select the schedules that no manifest declares, from their cursors."""
    cursor = schedule_cursor.c
    columns = (cursor[name] for name in DEFINITION if name != "definition")
    return (
        select(cursor.schedule_id, *columns, schedule_definition.c.definition, cursor.provider)
        .join(schedule_definition, schedule_definition.c.id == cursor.definition_id)
        .where(cursor.tenant_id == tenant.id, cursor.provider != MANIFESTS)
    )


async def add(
    connection: AsyncConnection, schema: str, rows: Sequence[JsonObject], version_id: UUID
) -> None:
    """Insert any number of schedules with one statement, by their definition columns."""
    if rows:
        parameters = {"rows": rows, "version_id": version_id}
        await of_tenant(connection, schema).execute(_ADD, parameters)


async def change(
    connection: AsyncConnection, schema: str, rows: Sequence[JsonObject], version_id: UUID
) -> None:
    """Update any number of schedules with one statement, by name."""
    if rows:
        parameters = {"rows": rows, "version_id": version_id}
        await of_tenant(connection, schema).execute(_CHANGE, parameters)


async def remove(connection: AsyncConnection, schema: str, names: Sequence[str]) -> None:
    """Delete schedules by name."""
    if names:
        statement = delete(tenant_schedule).where(
            tenant_schedule.c.schedule_name == func.any(list(names))
        )
        await of_tenant(connection, schema).execute(statement)


def _union(schemas: Sequence[tuple[TenantId, str]]) -> str:
    """Return one statement over several schemas; ids and schemas come from the tenant table."""
    selects = (
        _LIVE.format(tenant=sql.Literal(str(tenant)), schema=sql.Identifier(schema))
        for tenant, schema in schemas
    )
    return sql.SQL(" UNION ALL ").join(selects).as_string()
